import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { attack, send, sendJson } from './attack.ts';
import { startTarget, type Target } from './target.ts';

const RULES = 5_000;
const CLUSTERS = 1_000;
const KIND = 'enginegateway.dev/v1beta1';

function documents(count: number, of: (index: number) => object): string {
  return Array.from({ length: count }, (_, index) => stringify(of(index))).join('---\n');
}

async function fill(folder: string, url: string): Promise<void> {
  const rule = (index: number) => ({
    ...{ apiVersion: KIND, kind: 'RoutingRule', metadata: { name: `r${index}` } },
    spec: {
      condition: `request.getHeader("X-Engine-Source") == "s${index}" && request.getHeader("X-Engine-User") == "u${index}"`,
      actions: [`result.put("routingGroup", "g${index % 100}")`],
      description: `Rule number ${index} of many`,
      priority: index,
    },
  });
  const cluster = (index: number) => ({
    ...{ apiVersion: KIND, kind: 'EngineCluster', metadata: { name: `c${index}` } },
    spec: {
      ...{ proxyTo: `${url}/`, externalUrl: `https://c${index}.example.com`, routingGroup: `g${index % 100}` },
      healthCheck: { type: 'None' },
    },
  });
  await writeFile(join(folder, 'rules.yaml'), documents(RULES, rule));
  await writeFile(join(folder, 'clusters.yaml'), documents(CLUSTERS, cluster));
}

describe(`${RULES} rules and ${CLUSTERS} clusters, each kind in one file`, () => {
  let target: Target;
  beforeAll(async () => {
    // Few health checks: each verdict goes through all clusters.
    target = await startTarget({ monitor: { taskDelay: '10m' } }, { prepare: fill });
    // All statuses are written before anything is measured.
    const waiting = () => target.metric('reconcile_queue_depth');
    await vi.waitFor(async () => expect(await waiting()).toBe(0), { timeout: 150_000, interval: 500 });
  }, 180_000);
  afterAll(() => target?.close());

  test.each([
    ['GET', '/api/rules'],
    ['GET', '/webapp/getRoutingRules'],
    ['GET', '/api/clusters'],
    ['POST', '/webapp/getAllBackends'],
    ['GET', '/gateway/backend/all'],
    ['GET', '/gateway/backend/active'],
    ['GET', '/api/public/backends'],
    ['GET', '/metrics'],
    ['GET', '/api/overview'],
    ['GET', '/readyz'],
    ['GET', '/openapi.json'],
  ])('%s %s', async (method, path) => {
    const { answer } = await attack(target, `${method} ${path}`, async () => {
      const first = await send(target, path, { method });
      return [first.status, (await send(target, path, { method })).status];
    });
    expect(answer).toEqual([200, 200]);
  });

  test('an explanation', async () => {
    const { answer } = await attack(target, 'explain', () =>
      sendJson(target, 'POST', '/api/explain', { headers: { 'X-Engine-Source': 's17', 'X-Engine-User': 'u17' } }),
    );
    expect(JSON.parse(answer.text)).toMatchObject({ routingGroup: 'g17' });
    const rule = { name: 'r17', condition: 'true', actions: ['result.put("routingGroup", "g18")'] };
    await attack(target, 'explain with a rule', () => sendJson(target, 'POST', '/api/explain', { rule }));
  });

  test('a rule is changed, and the change is in force', async () => {
    const actions = ['result.put("routingGroup", "g1")'];
    const condition = (attempt: number) => `request.getHeader("X-Engine-Source") == "changed${attempt}"`;
    for (const name of ['r77', 'r4711']) {
      const { answer } = await attack(target, `rule ${name} is changed`, (attempt) =>
        sendJson(target, 'PUT', `/api/rules/${name}`, { condition: condition(attempt), actions }),
      );
      expect(answer.status, answer.text).toBe(200);
    }
    await attack(target, 'a rule is changed by the web application', (attempt) =>
      sendJson(target, 'POST', '/webapp/updateRoutingRules', {
        ...{ name: 'r78', description: '', priority: 5, condition: condition(attempt), actions },
      }),
    );
  });

  test('a cluster is added, switched off and deleted', async () => {
    const cluster = { name: 'new', proxyTo: 'http://127.0.0.1:1', active: false, routingGroup: 'g1' };
    for (const [name, path, body] of [
      ['added', '/gateway/backend/modify/add', cluster],
      ['deactivated', '/gateway/backend/deactivate/c17', ''],
      ['deleted', '/gateway/backend/modify/delete', 'new'],
    ] as const) {
      const { answer } = await attack(target, `a cluster is ${name}`, () => sendJson(target, 'POST', path, body), 1);
      expect(answer.status, answer.text).toBe(200);
    }
  });
});
