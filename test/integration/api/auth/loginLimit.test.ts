import { afterEach, describe, expect, test } from 'vitest';
import type { TrustPeer } from '../../../../src/gateway/headers/requestHeaders.ts';
import type { Clock } from '../../../../src/model/clock.ts';
import { accessSettings } from '../../../support/access.ts';
import { type ApiServer, startApi } from '../../../support/apiServer.ts';
import { sessionKeyPaths } from '../../../support/sessionKeyPair.ts';

/** A clock that tests move, and nothing else. */
class TestClock implements Clock {
  ahead = 0;
  readonly #start = Date.now();
  now = () => this.#start + this.ahead;
  monotonic = () => this.ahead;
}

const keys = sessionKeyPaths();
const ADDRESS = '203.0.113.7';
const MAX_ATTEMPTS = 3;
const WINDOW_S = 60;
/** Seconds after which one failure is forgotten. */
const REFILL_S = WINDOW_S / MAX_ATTEMPTS;

describe('the limit of failed logins', () => {
  let clock: TestClock;
  let api: ApiServer;
  afterEach(() => api.close());

  /** Starts the API behind a proxy on this machine, which is trusted unless the test says otherwise. */
  const start = async (trustPeer: TrustPeer = (address) => address === '127.0.0.1') => {
    clock = new TestClock();
    api = await startApi({
      access: accessSettings(`
authentication:
  loginLimit: {maxAttempts: ${MAX_ATTEMPTS}, window: ${WINDOW_S}s}
  form: {selfSignKeyPair: {privateKeyRsa: ${keys.privateKeyRsa}, publicKeyRsa: ${keys.publicKeyRsa}}}
presetUsers:
  ann: {password: right}
  ben: {password: right}
`),
      accessDependencies: { clock, trustPeer },
    });
  };
  const login = async (from: string, username: string, password = 'wrong') => {
    const headers = { 'X-Forwarded-For': from };
    return api.call('POST', '/login', { headers, body: JSON.stringify({ username, password }) });
  };
  const status = async (from: string, username: string, password?: string) =>
    (await login(from, username, password)).status;
  const statuses = async (count: number, attempt: (index: number) => Promise<number>) => {
    const found: number[] = [];
    for (let index = 0; index < count; index++) found.push(await attempt(index));
    return found;
  };
  const guess = (from: string, count: number, username = 'ann') => statuses(count, () => status(from, username));

  test('makes each further attempt at a name from one address wait', async () => {
    await start();
    expect(await guess(ADDRESS, MAX_ATTEMPTS)).toEqual([401, 401, 401]);
    for (let attempt = 0; attempt < 3; attempt++) {
      const rejected = await login(ADDRESS, 'ann', 'right');
      expect([rejected.status, rejected.json().error.code]).toEqual([429, 'EG_TOO_MANY_ATTEMPTS']);
      expect(rejected.headers['retry-after']).toBe(String(REFILL_S));
      clock.ahead += REFILL_S * 1000;
      expect(await status(ADDRESS, 'ann')).toBe(401);
    }
  });

  test('lets right credentials pass from elsewhere at once, and from there after the wait', async () => {
    await start();
    await guess(ADDRESS, MAX_ATTEMPTS);
    expect(await status('203.0.113.8', 'ann', 'right')).toBe(200);
    expect(await status(ADDRESS, 'ben', 'right')).toBe(200);
    expect(await status(ADDRESS, 'ann', 'right')).toBe(429);
    clock.ahead += REFILL_S * 1000;
    expect(await status(ADDRESS, 'ann', 'right')).toBe(200);
    expect(await guess(ADDRESS, MAX_ATTEMPTS + 1)).toEqual([401, 401, 401, 429]);
  });

  test('forgets all failures after the window', async () => {
    await start();
    await guess(ADDRESS, MAX_ATTEMPTS + 1);
    clock.ahead += WINDOW_S * 1000 + 1;
    expect(await guess(ADDRESS, MAX_ATTEMPTS + 1)).toEqual([401, 401, 401, 429]);
  });

  test('counts credentials of Basic calls with logins', async () => {
    await start();
    const basic = async (password: string) => {
      const Authorization = `Basic ${Buffer.from(`ann:${password}`).toString('base64')}`;
      const headers = { 'X-Forwarded-For': ADDRESS, Authorization };
      return (await api.call('GET', '/gateway/backend/all', { headers })).status;
    };
    expect(await basic('wrong')).toBe(401);
    expect(await guess(ADDRESS, 2)).toEqual([401, 401]);
    expect(await basic('right')).toBe(429);
  });

  test('bounds what one address guesses over all names, but not users who log in from there', async () => {
    await start();
    expect(await status(ADDRESS, 'ann', 'right')).toBe(200);
    const names = await statuses(MAX_ATTEMPTS * 10 + 3, (index) => status(ADDRESS, `name-${index}`));
    expect(names.filter((each) => each === 401)).toHaveLength(MAX_ATTEMPTS * 10);
    expect(names.slice(-3)).toEqual([429, 429, 429]);
    expect(await status(ADDRESS, 'ben', 'right')).toBe(429);
    expect(await status(ADDRESS, 'ann', 'right')).toBe(200);
    expect(await status('203.0.113.8', 'ben', 'right')).toBe(200);
    clock.ahead += REFILL_S * 1000;
    expect(await status(ADDRESS, 'ben', 'right')).toBe(200);
  });

  test('takes the /64 of an IPv6 address for one address', async () => {
    await start();
    const found = await statuses(MAX_ATTEMPTS + 1, (index) => status(`2001:db8:1:2:${index}::9`, 'ann'));
    expect(found).toEqual([401, 401, 401, 429]);
    expect(await status('2001:db8:1:3::9', 'ann')).toBe(401);
    expect(await status('[2001:db8:1:2::1]:4711', 'ann')).toBe(429);
  });

  test('counts for the last hop that is no trusted proxy, whatever a client writes before it', async () => {
    await start((address) => address === '127.0.0.1' || address.startsWith('10.'));
    const chains = ['1.2.3.4, 203.0.113.7, 10.0.0.1', 'nonsense, 203.0.113.7', '203.0.113.7:5000, 10.0.0.2'];
    expect(await statuses(3, (index) => status(chains[index] ?? '', 'ann'))).toEqual([401, 401, 401]);
    expect(await status(ADDRESS, 'ann')).toBe(429);
    expect(await status('1.2.3.4', 'ann')).toBe(401);
    expect(await status('nonsense', 'ann')).toBe(401);
  });

  test('does not bound what comes by a proxy as a whole: many addresses lock nobody else out', async () => {
    await start();
    const any = (index: number) => `198.51.${Math.floor(index / 200)}.${index % 200}`;
    const made = await statuses(MAX_ATTEMPTS * 100 + 5, (index) => status(any(index), `name-${index}`));
    expect(new Set(made)).toEqual(new Set([401]));
    expect(await status(ADDRESS, 'ben', 'right')).toBe(200);
  });

  test('counts for the last hop where every peer is trusted, and bounds all that comes by one peer', async () => {
    await start(() => true);
    const chains = await statuses(MAX_ATTEMPTS + 1, (index) => status(`192.0.2.${index}, ${ADDRESS}`, 'ann'));
    expect(chains).toEqual([401, 401, 401, 429]);
    expect(await status('192.0.2.200', 'ben', 'right')).toBe(200);
    // A client that reaches the gateway itself can write any address, but not another peer.
    const any = (index: number) => `198.51.${Math.floor(index / 200)}.${index % 200}`;
    const made = await statuses(MAX_ATTEMPTS * 100 + 1, (index) => status(any(index), `name-${index}`));
    expect(made.indexOf(429)).toBe(MAX_ATTEMPTS * 100 - 3);
    expect(await status('192.0.2.200', 'ben', 'right')).toBe(200);
  });

  test('warns once where all logins come from one address, as behind a proxy that is not trusted', async () => {
    await start(() => false);
    const warnings = () => api.logged.filter((line) => line.includes('all logins come from 127.0.0.1')).length;
    const gauge = async () => /^engine_gateway_logins_from_one_address (\d)$/m.exec(await api.metrics.metrics())?.[1];
    for (const name of ['a', 'b', 'c', 'd']) await status('192.0.2.1', name);
    expect([warnings(), await gauge()]).toEqual([0, '0']);
    for (const name of ['e', 'f', 'g']) await status('192.0.2.1', name);
    expect([warnings(), await gauge()]).toEqual([1, '1']);
    expect(api.logged.find((line) => line.includes('all logins come'))).toContain('server.trustedProxies');
    clock.ahead += 3_600_000;
    expect(await gauge()).toBe('0');
    for (const name of ['a', 'b', 'c', 'd', 'e']) await status('192.0.2.1', name);
    expect([warnings(), await gauge()]).toEqual([2, '1']);
    expect(await api.metrics.metrics()).toContain('engine_gateway_logins_total{result="failed"} 12');
  });

  test('does not warn where logins come from several addresses', async () => {
    await start();
    for (const [index, name] of ['a', 'b', 'c', 'd', 'e', 'f', 'g'].entries()) await status(`192.0.2.${index}`, name);
    expect(api.logged.join('\n')).not.toContain('all logins come from');
  });
});
