import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { manifest } from '../support/manifest.ts';
import { attack, send, sendJson } from './attack.ts';
import { RawConnection, startTarget, type Target } from './target.ts';

const MB = 1_000_000;

/** A rule that needs the analysis of every statement. */
const rule = manifest('RoutingRule', 'no-writes', {
  condition: 'engineQueryProperties.getTables().size() == 12345 || engineQueryProperties.getQueryType() == "Insert"',
  deny: { message: 'no writes here', whenError: 'Skip' },
});

const denial = manifest('RoutingRule', 'denial', {
  condition: 'request.getHeader("X-Engine-Source") == "denied"',
  deny: { message: 'not you' },
});

/** A text of about so many characters. */
function filled(characters: number, start: string, unit: string, end: string): string {
  return start + unit.repeat(Math.floor(characters / unit.length)) + end;
}

const shapes: readonly (readonly [string, (characters: number) => string])[] = [
  ['columns', (characters) => filled(characters, 'SELECT ', 'a,', 'a')],
  ['tables', (characters) => filled(characters, 'SELECT 1 FROM a.b.c', ',a.b."table"', '')],
  ['many rows', (characters) => filled(characters, 'SELECT * FROM (VALUES (1)', ',(1)', ')')],
  ['open parentheses', (characters) => filled(characters, 'SELECT ', '(', '1')],
  ['JSON members', (characters) => filled(characters, "SELECT json_object('a':1", ",'a':1", ')')],
  ['empty lines, then a mistake', (characters) => filled(characters, '', '\n', 'x')],
  ['escapes', (characters) => filled(characters, "SELECT U&'", '\\0061', "'")],
  ['quotes that never end', (characters) => filled(characters, 'SELECT ', '"', '')],
  ['a comment that never ends', (characters) => filled(characters, '', '/*', '')],
  ['four-byte characters', (characters) => filled(characters, "SELECT '", '\u{1f600}', "'")],
  ['semicolons', (characters) => filled(characters, '', ';', '')],
];

describe('long statements', () => {
  let target: Target;
  beforeAll(async () => {
    target = await startTarget(
      { requestAnalyzerConfig: { analyzeRequest: true, maxBodySize: 50 * MB } },
      { prepare: (folder) => writeFile(join(folder, 'rule.yaml'), `${stringify(rule)}---\n${stringify(denial)}`) },
    );
  });
  afterAll(() => target?.close());
  const submit = (body: string) =>
    send(target, '/v1/statement', { method: 'POST', body, headers: { 'X-Engine-User': 'long' } });

  test.each(shapes)('of 1 MB, made of %s, are analysed beside the event loop', async (name, text) => {
    const { answer } = await attack(target, `1 MB of ${name}`, () => submit(text(MB - 1000)));
    expect(answer).toMatchObject({ status: 200 });
  });

  test.each(shapes)('of 3.9 MB, made of %s', async (name, text) => {
    const { answer } = await attack(target, `3.9 MB of ${name}`, () => submit(text(3.9 * MB)));
    expect(answer).toMatchObject({ status: 200 });
  });

  test('of 50 MB reach the cluster without being analysed', async () => {
    const { answer } = await attack(target, '50 MB', () => submit(filled(50 * MB, 'SELECT ', 'a,', 'a')));
    expect(JSON.parse(answer.text)).toMatchObject({ size: 50 * MB + 8 });
  });

  test('are analysed as short ones are: their rule decides', async () => {
    const insert = filled(MB - 1000, 'INSERT INTO a.b.c VALUES (1)', ',(1)', '');
    const { answer } = await attack(target, 'an insert of 1 MB', () => submit(insert));
    expect(answer.text).toContain('no writes here');
    const explained = await attack(target, 'an insert of 1 MB, explained', () =>
      sendJson(target, 'POST', '/api/explain', { body: insert.slice(0, 900_000) }),
    );
    expect(explained.answer.status).toBe(200);
  });

  test('that are refused are answered while they still come, and end their connection', async () => {
    const connection = await new RawConnection(target.port).open();
    const head = 'POST /v1/statement HTTP/1.1\r\nHost: x\r\nX-Engine-Source: denied\r\n';
    const body = 'x'.repeat(10 * MB);
    connection.send(`${head}Content-Length: ${body.length}\r\n\r\n${body}GET /v1/node HTTP/1.1\r\nHost: x\r\n\r\n`);
    await expect.poll(() => connection.closed).toBe(true);
    expect(connection.statuses).toEqual([200]);
    expect(connection.received).toContain('not you');
  });

  test('come from many clients at once', async () => {
    const body = filled(900_000, 'SELECT 1 FROM a.b.c', ',a.b."table"', '');
    const { answer } = await attack(target, '30 statements of 1 MB at once', () =>
      Promise.all(Array.from({ length: 30 }, () => submit(body))),
    );
    expect(answer.map(({ status }) => status)).toEqual(Array(30).fill(200));
  });
});
