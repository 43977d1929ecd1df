import { scryptSync } from 'node:crypto';
import bcrypt from 'bcrypt';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { accessSettings } from '../../../support/access.ts';
import { type ApiServer, startApi } from '../../../support/apiServer.ts';
import { sessionKeyPaths } from '../../../support/sessionKeyPair.ts';

const keys = sessionKeyPaths();
const salt = Buffer.from('0123456789abcdef');
const scryptHash = scryptSync('right', salt, 32, { N: 2 ** 14, r: 8, p: 1 }).toString('base64');
const users = ['plain', 'bcrypt', 'scrypt', 'unknown', 'without'];
let api: ApiServer;

beforeAll(async () => {
  api = await startApi({
    access: accessSettings(`
authentication:
  loginLimit: {maxAttempts: 1000}
  form: {selfSignKeyPair: {privateKeyRsa: ${keys.privateKeyRsa}, publicKeyRsa: ${keys.publicKeyRsa}}}
presetUsers:
  plain: {password: right}
  bcrypt: {password: ${bcrypt.hashSync('right', 10)}}
  scrypt: {password: "$scrypt$ln=14,r=8,p=1$${salt.toString('base64')}$${scryptHash}"}
  without: {privileges: API}
`),
  });
});
afterAll(() => api.close());

const login = async (username: string, password: string): Promise<number> =>
  (await api.call('POST', '/login', { body: JSON.stringify({ username, password }) })).status;

test.each(['plain', 'bcrypt', 'scrypt'])('the kind %s lets its user in, and nobody else', async (name) => {
  expect([await login(name, 'right'), await login(name, 'wrong')]).toEqual([200, 401]);
});

test.each(['unknown', 'without'])('the name %s is not let in by a password of another user', async (name) => {
  expect(await login(name, 'right')).toBe(401);
});

test('a failed login takes the same work for each kind of password and for names that do not exist', {
  retry: 2,
}, async () => {
  const work = new Map<string, number>();
  for (const name of users) await login(name, 'warm up');
  for (const name of users) {
    const before = process.cpuUsage();
    for (let attempt = 0; attempt < 4; attempt++) expect(await login(name, `wrong ${attempt}`)).toBe(401);
    const { user, system } = process.cpuUsage(before);
    work.set(name, user + system);
  }
  // One bcrypt check of cost 10 and one scrypt check of 16 MB are far more than the rest of a call.
  expect(Math.min(...work.values())).toBeGreaterThan(Math.max(...work.values()) / 2);
});
