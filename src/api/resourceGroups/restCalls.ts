import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { type TSchema, Type } from 'typebox';
import type { ProductNames } from '../../model/names.ts';
import type { Checked } from '../../model/validation.ts';
import type { GroupTables } from '../../operator/registry/groupWrites.ts';
import type { GroupWrite, ResourceGroupStore } from '../../store/resourceGroupStore.ts';
import { malformed } from '../errors.ts';
import { jsonBody } from '../jsonBody.ts';
import { answer, emptyAnswer, errorAnswers, Force, withoutNulls } from '../schemas.ts';
import { warn } from '../warnings.ts';
import { changeGroups } from '../writes/groupChange.ts';
import type { TableChange } from './tableChange.ts';

export const UseSchema = Type.Object({
  useSchema: Type.Optional(
    Type.String({ description: "Another database of the gateway's database server; its own when absent." }),
  ),
});

/** Everything about a route but its path and what it does. */
interface RouteText {
  readonly summary: string;
  readonly description?: string;
  readonly params?: TSchema;
}

const readErrors = [400, 404, 422, 503];
const writeErrors = [400, 403, 404, 409, 413, 422, 503];
const WriteQuery = Type.Object({ ...UseSchema.properties, ...Force.properties });

/** Registers calls below the product's path: rows as they are, `useSchema` in the query, Content-Type ignored. */
export class RestCalls {
  readonly #app: FastifyInstance;
  readonly #stores: GroupTables;
  readonly #base: string;
  readonly #tag: string;

  /** @param tag of the OpenAPI document */
  constructor(app: FastifyInstance, stores: GroupTables, names: ProductNames, tag: string) {
    this.#app = app;
    this.#stores = stores;
    this.#base = `/${names.pathSegment}`;
    this.#tag = tag;
  }

  list(
    path: string,
    text: RouteText,
    rows: TSchema,
    find: (request: FastifyRequest) => (store: ResourceGroupStore) => Promise<readonly object[]>,
  ): void {
    const schema = this.#schemaOf(text, rows, readErrors);
    this.#app.get(`${this.#base}${path}`, { schema }, async (request, reply) => {
      const list = await this.#stores.use(databaseOf(request), find(request));
      return reply.send(list.map(withoutNulls));
    });
  }

  change<Sent>(path: string, text: RouteText, description: string, change: TableChange<Sent>): void {
    const schema = { ...this.#writeSchemaOf(text, answer(description, change.row)), body: change.body };
    this.#app.post(`${this.#base}${path}`, { schema }, async (request, reply) => {
      const body = checkedBody(request, (value) => change.parse(value));
      const { row, warnings } = await this.#change(request, (store) => change.apply(store, body));
      return warn(reply, warnings).send(withoutNulls(row ?? {}));
    });
  }

  delete(
    path: string,
    text: RouteText & { readonly body?: TSchema },
    remove: (request: FastifyRequest) => (store: ResourceGroupStore) => Promise<GroupWrite>,
  ): void {
    const schema = this.#writeSchemaOf(text, emptyAnswer('Deleted, or it was not there.'));
    this.#app.post(`${this.#base}${path}`, { schema }, async (request, reply): Promise<FastifyReply> => {
      await this.#change(request, remove(request));
      return reply.send();
    });
  }

  #schemaOf(text: RouteText, success: TSchema, errors: readonly number[]) {
    return {
      tags: [this.#tag],
      querystring: UseSchema,
      ...text,
      response: { 200: success, ...errorAnswers(...errors) },
    };
  }

  #writeSchemaOf(text: RouteText, success: TSchema) {
    return { ...this.#schemaOf(text, success, writeErrors), querystring: WriteQuery };
  }

  #change(request: FastifyRequest, work: (store: ResourceGroupStore) => Promise<GroupWrite>): Promise<GroupWrite> {
    return changeGroups(this.#stores, request, databaseOf(request), work);
  }
}

function databaseOf(request: FastifyRequest): string | null {
  return (request.query as { useSchema?: string }).useSchema ?? null;
}

/** The body, checked. Callers of this family never had to send a Content-Type. */
export function checkedBody<T>(request: FastifyRequest, parse: (value: unknown) => Checked<T>): T {
  const checked = parse(jsonBody(request, 'any'));
  if (!checked.ok) throw malformed(checked.problems);
  return checked.value;
}
