import type { FastifyInstance } from 'fastify';
import { type TSchema, Type } from 'typebox';
import { type Checked, compileCheck } from '../../model/validation.ts';
import type { GroupTables } from '../../operator/registry/groupWrites.ts';
import type { GroupWrite, ResourceGroupStore } from '../../store/resourceGroupStore.ts';
import { malformed } from '../errors.ts';
import { bodyIsOptional } from '../openapi.ts';
import { Force, withoutNulls } from '../schemas.ts';
import { warn } from '../warnings.ts';
import { bodyOf, failureAnswers, succeed, successAnswer } from '../webapp/envelope.ts';
import { changeGroups } from '../writes/groupChange.ts';
import type { TableChange } from './tableChange.ts';

export const useSchema = Type.Optional(
  Type.Union([Type.String(), Type.Null()], { description: 'Another database of the server; empty means none.' }),
);

const Change = Type.Object({ useSchema, data: Type.Unknown(), oldData: Type.Optional(Type.Unknown()) });
const checkChange = compileCheck(Change);

const tags = ['web application: resource groups'];
const errors = failureAnswers(400, 404, 409, 413, 415, 422, 503);
const writeErrors = { ...errors, ...failureAnswers(403) };

export interface WebappQuery<Query> {
  readonly body: TSchema;
  readonly parse: (value: unknown) => Checked<Query>;
}

/** A change as the web application sends it: `data`, and `oldData` where it has two sides. */
export interface WebappChange<Sent> {
  readonly body: TSchema;
  readonly answer: TSchema;
  readonly parse: (data: unknown, oldData: unknown) => Checked<Sent>;
  readonly apply: (store: ResourceGroupStore, change: Sent) => Promise<GroupWrite>;
}

/** Registers calls of the web application: POST with an envelope, which has `useSchema` in the body. */
export class WebappCalls {
  readonly #app: FastifyInstance;
  readonly #stores: GroupTables;

  constructor(app: FastifyInstance, stores: GroupTables) {
    this.#app = app;
    this.#stores = stores;
  }

  /** A call that reads: `data` is what it finds, without null fields. */
  read<Query extends { readonly useSchema?: string | null }>(
    call: string,
    summary: string,
    { body, parse }: WebappQuery<Query>,
    data: TSchema,
    find: (store: ResourceGroupStore, query: Query) => Promise<readonly object[] | object | null>,
  ): void {
    const response = { 200: successAnswer('What was found.', data), ...errors };
    const schema = { tags, summary, ...bodyIsOptional, body, response };
    this.#app.post(`/webapp/${call}`, { schema }, async (request, reply) => {
      const query = bodyOf(request, parse);
      const rows = await this.#stores.use(query.useSchema || null, (store) => find(store, query));
      if (rows === null) return succeed(reply);
      return succeed(reply, Array.isArray(rows) ? rows.map(withoutNulls) : withoutNulls(rows));
    });
  }

  change<Sent>(call: string, summary: string, change: TableChange<Sent>): void {
    this.write(call, summary, {
      body: changeOf(change.body),
      answer: change.row,
      parse: (data) => within('data', change.parse(data)),
      apply: (store, sentRow) => change.apply(store, sentRow),
    });
  }

  delete<Sent>(
    call: string,
    summary: string,
    body: TSchema,
    parse: (data: unknown) => Checked<Sent>,
    remove: (store: ResourceGroupStore, change: Sent) => Promise<GroupWrite>,
  ): void {
    this.write(call, summary, {
      body: changeOf(body),
      answer: Type.Literal(true),
      parse: (data) => within('data', parse(data)),
      apply: remove,
    });
  }

  /** A call that writes: what is sent is checked before the database sees it. */
  write<Sent>(call: string, summary: string, { body, answer, parse, apply }: WebappChange<Sent>): void {
    const response = { 200: successAnswer('What is stored now, or true.', answer), ...writeErrors };
    const schema = { tags, summary, querystring: Force, body, response };
    this.#app.post(`/webapp/${call}`, { schema }, async (request, reply) => {
      const envelope = bodyOf(request, checkChange);
      const checked = parse(envelope.data, envelope.oldData);
      if (!checked.ok) throw malformed(checked.problems);
      const work = (store: ResourceGroupStore) => apply(store, checked.value);
      const { row, warnings } = await changeGroups(this.#stores, request, envelope.useSchema || null, work);
      return row === null ? succeed(reply, true) : succeed(warn(reply, warnings), withoutNulls(row));
    });
  }
}

function changeOf(data: TSchema): TSchema {
  return Type.Object({ useSchema, data });
}

/** Puts the envelope's field before the path of every problem. */
function within<T>(prefix: string, checked: Checked<T>): Checked<T> {
  if (checked.ok) return checked;
  return {
    ok: false,
    problems: checked.problems.map(({ field, message }) => ({
      field: field === '' ? prefix : `${prefix}.${field}`,
      message,
    })),
  };
}
