import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer } from '../../../support/apiServer.ts';
import { databases, oneDatabase } from '../../../support/databases.ts';
import { bodyRows, bodySchema, operationKeys, operationOf, parameterRows } from './derived.ts';
import { allRows, type ContractRig, nothingKnown, startContractRig } from './rig.ts';
import { internals, type Row } from './rows.ts';

const json = (response: Answer) => (response.text === '' ? null : response.json());

for (const family of databases.filter(({ name }) => name !== 'sqlite')) {
  describe.skipIf(!family.available())(`the contract on ${family.name}`, () => {
    let rig: ContractRig;
    beforeAll(async () => {
      rig = await startContractRig(family);
    }, 120_000);
    afterAll(() => rig?.dispose());

    const expectError = (response: Answer, operation: string, { status, field }: Pick<Row, 'status' | 'field'>) => {
      expect(response.status, response.text).toBe(status);
      const body = response.json();
      const wrapped = /^\S+ \/(webapp\/|login|logout|loginType|userinfo|sso|oidc\/)/.test(operation);
      if (wrapped) expect([body.code, body.msg]).toEqual([status, body.error.message]);
      expect(Object.keys(body).sort()).toEqual(wrapped ? ['code', 'error', 'msg'] : ['error']);
      expect(body.error.code).toMatch(/^EG_[A-Z_]+$/);
      if (field !== undefined) expect(body.error.field, response.text).toBe(field);
      expect(response.text).not.toMatch(internals);
    };

    const run = async (operation: string, row: Row) => {
      for (const [before, call] of row.first ?? []) {
        const response = await rig.call(before, call);
        expect([before, response.status]).toEqual([before, 200]);
      }
      const response = await rig.call(operation, row);
      if (row.status < 400) {
        expect(response.status, response.text).toBe(row.status);
        if (typeof row.shows === 'string') expect(response.text).toBe(row.shows);
        else if (row.shows !== undefined) expect(json(response)).toMatchObject(row.shows as object);
      } else if (typeof row.shows === 'string') {
        expect([response.status, response.text]).toEqual([row.status, row.shows]);
      } else expectError(response, operation, row);
    };

    it('has rows for every operation of the OpenAPI document, and no others', () => {
      expect(Object.keys(allRows(rig.known)).sort()).toEqual(operationKeys(rig.document).sort());
    });

    describe.each(Object.keys(allRows(nothingKnown)))('%s', (operation) => {
      it('succeeds', async () => {
        for (const row of allRows(rig.known)[operation]?.success ?? []) await run(operation, row);
      });

      it('reports errors', async () => {
        const { unknown, conflict, malformed } = allRows(rig.known)[operation] ?? {};
        for (const row of [...(unknown ?? []), ...(conflict ?? []), ...(malformed ?? [])]) {
          await run(operation, row).catch((cause) =>
            Promise.reject(new Error(`${row.why}: ${cause.message}`, { cause })),
          );
        }
      });

      // What follows is refused before a database is asked.
      if (family !== oneDatabase) return;

      it('reports what breaks the document', async () => {
        const described = operationOf(rig.document, operation);
        const good = allRows(rig.known)[operation]?.success[0];
        if (good === undefined) throw new Error('no row of a success');
        const schema = bodySchema(rig.document, described);
        const derived = [
          ...parameterRows(described, good),
          ...(schema === null ? [] : bodyRows(schema, good.body as object, described.responses)).map((row) => ({
            ...good,
            shows: undefined,
            first: [],
            ...row,
          })),
        ];
        for (const row of derived) {
          await run(operation, row).catch((cause) =>
            Promise.reject(new Error(`${row.why}: ${cause.message}`, { cause })),
          );
        }
        const [, path = ''] = operation.split(' ');
        const wrong = await rig.call(`PATCH ${path}`, { path: good.path ?? {} });
        expectError(wrong, 'PATCH', { status: 405 });
        expect(wrong.headers.allow).toContain(operation.split(' ')[0]);
      });

      it('lets nobody in without login or role', async () => {
        const good = allRows(rig.known)[operation]?.success[0];
        if (good === undefined) throw new Error('no row of a success');
        const anonymous = await rig.call(operation, { ...good, as: null, headers: {} });
        const { responses, security } = operationOf(rig.document, operation);
        const isPublic = responses['401'] === undefined || good.as === null;
        expect(security === undefined).toBe(isPublic);
        if (isPublic) {
          expect([200, 302, 303, 401]).toContain(anonymous.status);
          return;
        }
        expectError(anonymous, operation, { status: 401 });
        expect(anonymous.headers['www-authenticate']).toMatch(/Basic/);
        expectError(await rig.call(operation, { ...good, as: 'nil' }), operation, { status: 403 });
        expectError(await rig.call(operation, { ...good, headers: { Authorization: 'Bearer x' } }), operation, {
          status: 401,
        });
        const foreign = await rig.call(operation, { ...good, headers: { Origin: 'https://evil.example' } });
        if (!operation.startsWith('GET')) expectError(foreign, operation, { status: 403 });
      });
    });
  });
}
