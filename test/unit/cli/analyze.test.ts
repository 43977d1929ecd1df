import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';
import { runCli } from '../../../src/cli/program.ts';

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function run(args: readonly string[], stdin = ''): Promise<Outcome> {
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const printed = Promise.all([text(stdout), text(stderr)]);
  const code = await runCli(args, { stdout, stderr, stdin: Readable.from([stdin]), environment: {} });
  stdout.end();
  stderr.end();
  const [out, err] = await printed;
  return { code, stdout: out, stderr: err };
}

test('a statement: what is found, a line each', async () => {
  expect(
    await run(['analyze', '--catalog', 'lake', '--schema', 'ops', 'INSERT INTO facts TABLE stage.raw.events']),
  ).toEqual({
    code: 0,
    stdout: [
      'statement:                  Insert',
      'resource group query type:  INSERT',
      'tables:                     lake.ops.facts, stage.raw.events',
      'catalogs:                   lake, stage',
      'schemas:                    ops, raw',
      'catalog schemas:            lake.ops, stage.raw',
      '',
    ].join('\n'),
    stderr: '',
  });
});

test('a syntax error: its place, and exit code 1', async () => {
  const { code, stdout } = await run(['analyze', 'SELECT * FORM t']);
  expect({ code, stdout }).toEqual({
    code: 1,
    stdout: "error:                      line 1:10: mismatched input 'FORM'\n",
  });
});

test('JSON', async () => {
  const { stdout } = await run(['analyze', '--json', "CALL system.runtime.kill_query('q')"]);
  expect(JSON.parse(stdout)).toMatchObject({ queryType: 'Call', queryId: 'q', tables: [], errorMessage: null });
});

test('cases: a line of verdict for each line of request', async () => {
  const requests = [
    { id: 'a', method: 'POST', path: '/v1/statement', headers: { 'X-Engine-Catalog': 'c' }, body: 'TABLE s.t' },
    { id: 'b', method: 'GET', path: '/v1/statement', headers: {}, body: 'TABLE s.t' },
  ];
  const { code, stdout } = await run(
    ['analyze', '--cases'],
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
  expect(await run(['analyze'])).toMatchObject({ code: 2, stdout: '' });
  expect(await run(['analyze', '--cases'], 'no json\n')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('line 1'),
  });
});
