import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { databases, oneDatabase } from '../../../support/databases.ts';
import { bodySchema, operationOf } from './derived.ts';
import { allRows, type ContractRig, nothingKnown, startContractRig } from './rig.ts';
import { internals, type Row, type RowCall } from './rows.ts';

/** Texts that end a string, a statement or a comment where they are put into one as they are. A sleep is longer than a test may take. */
const statements = [
  "x' or '1'='1",
  "x'; drop table query_history; delete from eg_resources; select pg_sleep(600); --",
  'x" or sleep(600) or ""="',
  "x\\' or sleep(600) #",
  "x') union select name, value, 1 from resource_groups_global_properties -- ",
  '$1 ? :name %s {x} ${ENV:PATH} `selectors`',
  'x\u0000y',
];
/** Those that mean something to one of the databases alone, or that it reads in its own way. */
const dialectStatements = statements.slice(1, 4);
/** The same of header lines, which no database reads. */
const lines = ['x\r\nX-Injected: 1\r\nSet-Cookie: stolen=1\r\n\r\n<html>', '\u02bc\u560d\u560aX-Injected: 1'];

/** Every way to put a text into a call: path and query parameters, and each text of the body. */
function calls(rig: ContractRig, operation: string, good: Row, text: string): [string, RowCall][] {
  const described = operationOf(rig.document, operation);
  const schema = bodySchema(rig.document, described);
  const found: [string, RowCall][] = [];
  for (const { in: place, name } of described.parameters ?? []) {
    if (place === 'path') found.push([`path ${name}`, { ...good, path: { ...good.path, [name]: text } }]);
    else {
      const query = new URLSearchParams(good.query ?? '');
      query.set(name, text);
      found.push([`query ${name}`, { ...good, query: query.toString() }]);
    }
  }
  const into = (value: object, names: readonly string[], wrap: (value: object) => object, path: string) => {
    for (const name of new Set([...Object.keys(value), ...names])) {
      const member = (value as Record<string, unknown>)[name];
      found.push([`body ${path}${name}`, { ...good, body: wrap({ ...value, [name]: text }) }]);
      if (typeof member === 'object' && member !== null && !Array.isArray(member)) {
        into(member, [], (inner) => wrap({ ...value, [name]: inner }), `${path}${name}.`);
      }
    }
  };
  if (typeof good.body === 'object' && good.body !== null) {
    into(good.body, Object.keys(schema?.properties ?? {}), (value) => value, '');
    found.push(['body a name', { ...good, body: { ...good.body, [text]: text } }]);
  } else if (described.requestBody !== undefined) found.push(['body', { ...good, body: text }]);
  return found;
}

/** Every way to put a text into the headers of a call. */
function headerCalls(good: Row, text: string): [string, RowCall][] {
  const line = encodeURIComponent(text);
  const authorization = `Basic ${Buffer.from(`${text}:${text}`).toString('base64')}`;
  const cookie = `Engine-Gateway-Session=${line}; Engine-Gateway-OIDC=${line}`;
  return [
    ['headers', { ...good, headers: { ...good.headers, 'X-Request-Id': line, 'X-Engine-User': line, Accept: line } }],
    ['Authorization', { ...good, headers: { Authorization: authorization } }],
    ['Cookie', { ...good, headers: { ...good.headers, Cookie: cookie } }],
  ];
}

const operations = Object.keys(allRows(nothingKnown));
/** One operation of each family of paths: headers are read before the operation is known. */
const ofHeaders = new Set(Object.values(Object.fromEntries(operations.map((name) => [name.split('/')[1], name]))));

for (const family of databases.filter(({ name }) => name !== 'sqlite')) {
  describe.skipIf(!family.available())(`hostile texts on ${family.name}`, () => {
    let rig: ContractRig;
    beforeAll(async () => {
      rig = await startContractRig(family);
    }, 120_000);
    afterAll(() => rig?.dispose());

    const attack = async (operation: string, text: string, place: string, call: RowCall) => {
      const response = await rig.call(operation, call);
      const what = `${JSON.stringify(text)} as ${place}: ${response.status} ${response.text.slice(0, 300)}`;
      // The operation that asks a cluster finds none here.
      if (response.status !== allRows(rig.known)[operation]?.success[0].status) {
        expect(response.status, what).toBeLessThan(500);
      }
      expect(response.headers['x-injected'], what).toBeUndefined();
      expect((response.headers['set-cookie'] ?? []).join(), what).not.toContain('stolen');
      // What was sent may come back, what the database says may not.
      if (response.status >= 400) expect(withoutSent(response.text, text), what).not.toMatch(internals);
    };

    it.each(operations)('%s', { timeout: 120_000 }, async (operation) => {
      const good = allRows(rig.known)[operation]?.success[0];
      if (good === undefined) throw new Error('no row of a success');
      const isWhole = family === oneDatabase;
      const hasHeaders = isWhole && ofHeaders.has(operation);
      for (const text of isWhole ? [...statements, ...lines] : dialectStatements) {
        const all = [...calls(rig, operation, good, text), ...(hasHeaders ? headerCalls(good, text) : [])];
        await Promise.all(all.map(([place, call]) => attack(operation, text, place, call)));
      }
      expect(await rig.tables()).toEqual({ query_history: 3, selectors: true, groups: true, resources: true });
    });
  });
}

function withoutSent(response: string, text: string): string {
  const escaped = JSON.stringify(text).slice(1, -1);
  return response.replaceAll(escaped, '').replaceAll(JSON.stringify(escaped).slice(1, -1), '').replaceAll(text, '');
}
