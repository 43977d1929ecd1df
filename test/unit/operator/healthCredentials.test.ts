import { ApiException } from '@kubernetes/client-node';
import { expect, test } from 'vitest';
import type { Resource } from '../../../src/model/resource.ts';
import { HEALTH_CREDENTIALS_LABEL, SecretCredentials } from '../../../src/operator/kubernetes/healthCredentials.ts';

type Answer = { readonly labels: Record<string, string>; readonly data: Record<string, string> } | Error;

const secret = (password: string): Answer => ({
  labels: { [HEALTH_CREDENTIALS_LABEL]: 'true' },
  data: { username: 'u', password },
});
const answering = (code: number): Answer => new ApiException(code, 'x', '{}', {});
const resource = (spec: object): Resource =>
  ({ metadata: { name: 'a', namespace: 'ns' }, spec }) as unknown as Resource;

/** Credentials read from an API server whose answer the test sets, on a clock that it moves. */
function credentials() {
  let now = 0;
  let answer: Answer = secret('one');
  const asked: string[] = [];
  const api = {
    readSecret: async (namespace: string, name: string) => {
      asked.push(`${namespace}/${name}`);
      if (answer instanceof Error) throw answer;
      return answer;
    },
  };
  const read = new SecretCredentials(api, { now: () => now, monotonic: () => now });
  return {
    asked,
    of: async () => {
      const found = await read.of(resource({ healthCheck: { credentialsSecretRef: { name: 's' } } }));
      return found?.ok === true ? found.password : found?.message;
    },
    none: () => read.of(resource({})),
    set: (next: Answer) => {
      answer = next;
    },
    pass: (seconds: number) => {
      now += seconds * 1_000;
    },
  };
}

test('a Secret is read once a minute', async () => {
  const { of, none, set, pass, asked } = credentials();
  expect(await none()).toBeNull();
  expect([await of(), await of()]).toEqual(['one', 'one']);
  set(secret('two'));
  pass(59);
  expect(await of()).toBe('one');
  pass(1);
  expect(await of()).toBe('two');
  expect(asked).toEqual(['ns/s', 'ns/s']);
});

test.each<[string, Answer]>([
  ['refused connections', new Error('connect ECONNREFUSED')],
  ['500', answering(500)],
  ['403 while it starts', answering(403)],
])('while the API server is away (%s) the last ones are used, and it is asked each time', async (_what, away) => {
  const { of, set, pass, asked } = credentials();
  await of();
  set(away);
  pass(60);
  expect([await of(), await of()]).toEqual(['one', 'one']);
  expect(asked).toHaveLength(3);
  set(secret('two'));
  expect(await of()).toBe('two');
});

test.each<[string, Answer, string]>([
  ['deleted', answering(404), 'Secret ns/s does not exist'],
  ['not labelled any more', { labels: {}, data: {} }, 'must be labelled enginegateway.dev/health-credentials=true'],
  [
    'without its keys',
    { labels: { [HEALTH_CREDENTIALS_LABEL]: 'true' }, data: { username: 'u' } },
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
