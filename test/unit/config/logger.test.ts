import type { Logger } from 'pino';
import { describe, expect, test } from 'vitest';
import { createLogger } from '../../../src/config/logger.ts';

function capture(level: 'trace' | 'info' = 'info'): { readonly logger: Logger; readonly lines: string[] } {
  const lines: string[] = [];
  return { logger: createLogger({ level, destination: { write: (line) => void lines.push(line) } }), lines };
}

const secret = 'hunter2';

describe('no secret gets into a line', () => {
  test.each<[string, Record<string, unknown>]>([
    ['a header', { authorization: `Basic ${secret}` }],
    ['a header in upper case', { headers: { Authorization: secret, 'Proxy-Authorization': secret } }],
    ['cookies', { headers: { cookie: secret, 'set-cookie': [secret, secret] } }],
    ['extra credentials', { headers: { 'x-engine-extra-credential': secret } }],
    ['a password', { password: secret }],
    ['another password', { dbPassword: secret, keystore_password: secret }],
    ['a number', { password: 42424242 }],
    ['a secret', { clientSecret: secret, cookieSigningSecret: { value: secret } }],
    ['a token', { token: secret, 'x-auth-token': secret, idToken: secret }],
    ['a key', { privateKey: secret, apiKey: secret, api_key: secret }],
    ['a deep one', { a: { b: [{ c: { password: secret } }] } }],
    ['one in a map', { headers: new Map([['authorization', secret]]) }],
    ['one in a URL', { url: `jdbc:mysql://user:${secret}@db/gateway` }],
    ['one in a query string', { target: `jdbc:postgresql://db/g?user=a&password=${secret}&ssl=true` }],
    ['one of many URLs', { urls: [`https://a:${secret}@x/`, 'https://b/'] }],
    ['one below every depth', { a: { b: { c: { d: { e: { f: { g: { h: { i: { j: secret } } } } } } } } } }],
    ['one on an error', { err: Object.assign(new Error('x'), { config: { headers: { authorization: secret } } }) }],
    ['one on an inner error', { cause: Object.assign(new Error('x'), { password: secret }) }],
    ['one in an object with a form of its own', { user: { toJSON: () => ({ password: secret }) } }],
  ])('%s', (_, fields) => {
    const { logger, lines } = capture();
    logger.info(fields, 'said');
    logger.child(fields).info('said by a child');
    expect(lines).toHaveLength(2);
    expect(lines.join('')).not.toContain(secret);
    expect(lines.join('')).not.toContain('42424242');
  });

  test('an error given alone', () => {
    const { logger, lines } = capture();
    logger.error(Object.assign(new Error('refused'), { request: { cookie: secret } }));
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({
      err: { type: 'Error', message: 'refused', request: { cookie: '***' } },
    });
  });
});

test('what is no secret stays as it is', () => {
  const { logger, lines } = capture();
  logger.info(
    { queryId: '20261121_015745_00000_kvhrm', at: new Date(0), ok: true, n: 1, url: 'http://a:8080/x', none: null },
    'm',
  );
  const line = JSON.parse(lines[0] ?? '');
  expect(line).toMatchObject({
    level: 'info',
    queryId: '20261121_015745_00000_kvhrm',
    at: '1970-01-01T00:00:00.000Z',
    ok: true,
    n: 1,
    url: 'http://a:8080/x',
    none: null,
    msg: 'm',
  });
  expect(new Date(line.time).toISOString()).toBe(line.time);
});

test('the level reaches every logger, also those made before', () => {
  const { logger, lines } = capture();
  const child = logger.child({ part: 'store' });
  const grandchild = child.child({ table: 'x' });
  grandchild.debug('unheard');
  logger.level = 'debug';
  grandchild.debug('heard');
  logger.child({}).debug('heard too');
  logger.level = 'error';
  for (const each of [logger, child, grandchild]) each.info('unheard');
  expect(lines.map((line) => JSON.parse(line).msg)).toEqual(['heard', 'heard too']);
});
