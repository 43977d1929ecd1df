import { ApiException } from '@kubernetes/client-node';
import { describe, expect, test } from 'vitest';
import type { Resource } from '../../../src/model/resource.ts';
import { SecretCredentials } from '../../../src/operator/sources/kubernetes/referencedObjects.ts';
import { Tenancy } from '../../../src/rules/tenancy.ts';

type Answer =
  | {
      readonly labels: Record<string, string>;
      readonly data: Record<string, string>;
    }
  | Error;

const secret = (password: string): Answer => ({
  labels: { 'enginegateway.dev/health-credentials': 'true' },
  data: { username: 'u', password },
});
const answering = (code: number): Answer => new ApiException(code, 'x', '{}', {});
const resource = (spec: object): Resource =>
  ({ metadata: { name: 'a', namespace: 'ns' }, spec }) as unknown as Resource;

/** Credentials read from an API server whose answer the test sets, on a clock that it moves. */
function credentials() {
  let now = 0;
  let answer: Answer = secret('one');
  const reads: string[] = [];
  const api = {
    readObject: async (_kind: string, namespace: string, name: string) => {
      reads.push(`${namespace}/${name}`);
      if (answer instanceof Error) throw answer;
      return answer;
    },
  };
  const read = new SecretCredentials(api, { now: () => now, monotonic: () => now });
  return {
    reads,
    of: async (
      url = 'http://engine.ns.svc:8080',
      hosts: readonly string[] | null = null,
      notGranted: string | null = null,
    ) => {
      const check = { credentialsSecretRef: { name: 's' }, ...(hosts === null ? {} : { credentialsHosts: hosts }) };
      const found = await read.of(resource({ healthCheck: check }), 'healthCheck', url, notGranted);
      return found?.ok === true ? found.password : found?.message;
    },
    none: () => read.of(resource({}), 'healthCheck', 'http://a', null),
    set: (next: Answer) => {
      answer = next;
    },
    pass: (seconds: number) => {
      now += seconds * 1_000;
    },
  };
}

test('a Secret is read once a minute', async () => {
  const { of, none, set, pass, reads } = credentials();
  expect(await none()).toBeNull();
  expect([await of(), await of()]).toEqual(['one', 'one']);
  set(secret('two'));
  pass(59);
  expect(await of()).toBe('one');
  pass(1);
  expect(await of()).toBe('two');
  expect(reads).toEqual(['ns/s', 'ns/s']);
});

test.each<[string, Answer]>([
  ['refused connections', new Error('connect ECONNREFUSED')],
  ['500', answering(500)],
  ['403 while it starts', answering(403)],
  ['401 while it starts', answering(401)],
])(
  'while the API server is unavailable (%s) the last ones are used, and it is asked each time',
  async (_what, away) => {
    const { of, set, pass, reads } = credentials();
    await of();
    set(away);
    pass(60);
    expect([await of(), await of()]).toEqual(['one', 'one']);
    expect(reads).toHaveLength(3);
    set(secret('two'));
    expect(await of()).toBe('two');
  },
);

test.each<[string, Answer, string]>([
  ['deleted', answering(404), 'Secret ns/s does not exist'],
  ['not labelled any more', { labels: {}, data: {} }, 'must be labelled enginegateway.dev/health-credentials=true'],
  [
    'without its keys',
    { labels: { 'enginegateway.dev/health-credentials': 'true' }, data: { username: 'u' } },
    'must have the keys username and password',
  ],
])('a Secret that is %s counts at once', async (_what, answer, message) => {
  const { of, set, pass } = credentials();
  await of();
  set(answer);
  pass(60);
  expect(await of()).toContain(message);
  set(new Error('connect ECONNREFUSED'));
  expect(await of()).toContain('cannot be read');
});

test('without the right to read Secrets of the namespace the message says which Role is missing', async () => {
  const { of, set } = credentials();
  set(answering(403));
  expect(await of()).toMatch(/needs a Role and a RoleBinding in namespace ns .*manifests\/health-credentials/);
});

describe('the hosts that a Secret may be sent to', () => {
  test.each<[string[] | null, string, boolean]>([
    // Without the field: Services of the namespace.
    [null, 'http://engine.ns.svc:8080', true],
    [null, 'https://engine.ns.svc.cluster.local', true],
    [null, 'http://engine.other.svc:8080', false],
    [null, 'http://engine.ns.svc.evil.example', false],
    [null, 'https://trino.example:8443', false],
    // With it: what it names, and nothing else.
    [['trino.example:8443'], 'https://trino.example:8443', true],
    [['trino.example:8443'], 'https://TRINO.example:8443', true],
    [['trino.example:8443'], 'https://trino.example:9443', false],
    [['trino.example:8443'], 'https://trino.example', false],
    [['trino.example:443'], 'https://trino.example', true],
    [['trino.example:443'], 'http://trino.example', false],
    [['trino.example'], 'http://trino.example:1', true],
    [['trino.example'], 'http://evil-trino.example', false],
    [['trino.example'], 'http://trino.example.evil.example', false],
    [['*.trino.svc'], 'http://a.trino.svc:8080', true],
    [['*.trino.svc'], 'http://a.b.trino.svc:8080', true],
    [['*.trino.svc'], 'http://trino.svc:8080', false],
    [['*.trino.svc'], 'http://eviltrino.svc:8080', false],
    [['a.example', 'b.example'], 'http://b.example', true],
    [['10.0.0.1:8080'], 'http://10.0.0.1:8080', true],
    [['[2001:DB8::1]:8080'], 'http://[2001:db8:0::1]:8080', true],
    [['*'], 'http://anything', true],
    [['trino.example'], 'http://engine.ns.svc:8080', false],
  ])('%j: %s %s', async (hosts, url, expected) => {
    const { of, reads } = credentials();
    const found = await of(url, hosts);
    if (expected) expect(found).toBe('one');
    else
      expect(found).toMatch(/^spec.healthCheck.credentialsHosts does not name .*; write credentialsHosts: \[".*"\]$/);
    expect(reads).toHaveLength(expected ? 1 : 0);
  });

  test.each([
    [[], 'http://engine.ns.svc:8080', true],
    [[], 'https://trino.example:8443', false],
    [['*.example'], 'https://trino.example:8443', true],
  ])('are bounded by the tenant of the namespace: %j, %s', async (credentialsHosts, url, isGranted) => {
    const spec = { namespaces: { names: ['ns'] }, credentialsHosts };
    const tenancy = new Tenancy({ platform: 'gw', tenants: [{ name: 't', namespaces: ['ns'], spec }] });
    const { of, reads } = credentials();
    const found = await of(url, ['*'], tenancy.hostRejection('ns', url));
    expect(found).toContain(isGranted ? 'one' : 'have the host added to spec.credentialsHosts of its EngineTenant');
    expect(reads).toHaveLength(isGranted ? 1 : 0);
  });
});
