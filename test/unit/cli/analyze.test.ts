import { expect, test } from 'vitest';
import { runCommand } from '../../support/commandLine.ts';

test('a statement: what is found, a line each', async () => {
  expect(
    await runCommand(['analyze', '--catalog', 'lake', '--schema', 'ops', 'INSERT INTO facts TABLE stage.raw.events']),
  ).toEqual({
    code: 0,
    stdout: [
      'statement:                  Insert',
      'resource group query type:  INSERT',
      'tables:                     lake.ops.facts, stage.raw.events',
      'catalogs:                   lake, stage',
      'schemas:                    ops, raw',
      'catalog schemas:            lake.ops, stage.raw',
      'exact digest:               474590d9223d8c5f',
      'shape digest:               474590d9223d8c5f',
      'shape:                      INSERT INTO facts TABLE stage.raw.events',
      '',
    ].join('\n'),
    stderr: '',
  });
});

test('a syntax error: its place, and exit code 1', async () => {
  const { code, stdout } = await runCommand(['analyze', 'SELECT * FORM t']);
  expect({ code, stdout }).toEqual({
    code: 1,
    stdout: "error:                      line 1:10: mismatched input 'FORM'\n",
  });
});

test('JSON', async () => {
  const { stdout } = await runCommand(['analyze', '--json', "CALL system.runtime.kill_query('q')"]);
  expect(JSON.parse(stdout)).toMatchObject({ queryType: 'Call', queryId: 'q', tables: [], errorMessage: null });
});

test('cases: a line of verdict for each line of request', async () => {
  const requests = [
    { id: 'a', method: 'POST', path: '/v1/statement', headers: { 'X-Engine-Catalog': 'c' }, body: 'TABLE s.t' },
    { id: 'b', method: 'GET', path: '/v1/statement', headers: {}, body: 'TABLE s.t' },
  ];
  const { code, stdout } = await runCommand(
    ['analyze', '--cases'],
    {},
    requests.map((one) => `${JSON.stringify(one)}\n`).join('\n'),
  );
  expect(code).toBe(0);
  expect(
    stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toMatchObject([
    { id: 'a', queryType: 'Query', tables: ['c.s.t'], isNewQuerySubmission: true, isQueryParsingSuccessful: true },
    { id: 'b', queryType: '', tables: [], isNewQuerySubmission: false, isQueryParsingSuccessful: true },
  ]);
});

test('mistakes of usage', async () => {
  expect(await runCommand(['analyze'])).toMatchObject({ code: 2, stdout: '' });
  expect(await runCommand(['analyze', '--cases'], {}, 'no json\n')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('line 1'),
  });
});
