import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sessionKeyPair } from '../support/sessionKeyPair.ts';
import { startEngine } from './engine.ts';
import { manifestsFor, specFor } from './manifests.ts';
import { type Gateway, type Program, startProgram } from './program.ts';
import { isObject, shapeOf } from './scrub.ts';

/** Body or query of the call of an operation; `{…}` in its path is replaced by a known name. */
interface Call {
  readonly path?: string;
  readonly json?: unknown;
  readonly text?: string;
}

const cluster = { name: 'b', proxyTo: 'http://127.0.0.1:1', active: true, routingGroup: 'adhoc' };
const group = {
  name: 'g',
  softMemoryLimit: '50%',
  maxQueued: 10,
  softConcurrencyLimit: 1,
  hardConcurrencyLimit: 2,
  environment: 'test',
};
const selector = { priority: 1, userRegex: 'u.*', sourceRegex: null, queryType: null };
const stored = { resourceGroupId: 1, ...selector };
const property = { name: 'cpu_quota_period', value: '1h' };
const rule = {
  name: 'etl',
  description: 'd',
  priority: 2,
  condition: 'false',
  actions: ['result.put("routingGroup", "etl")'],
};
const statement = { body: 'SELECT 1 FROM a.b.c', headers: { 'X-Engine-User': 'u' } };

/** Calls of the operations that take more than a path. Each call works for an administrator, in this order. */
const calls: Readonly<Record<string, Call>> = {
  'POST /login': { json: { username: 'ADMIN', password: 'x' } },
  'POST /gateway/backend/modify/add': { json: cluster },
  'POST /gateway/backend/modify/update': { json: { ...cluster, active: false } },
  'POST /gateway/backend/modify/delete': { text: 'b' },
  'PUT /api/clusters/{name}/active': { json: { active: true } },
  'PUT /api/groups/{name}': { json: { strategy: 'leastLoaded' } },
  'PUT /api/limits/{namespace}/{name}': { json: { per: 'user', maxRunning: 3 } },
  'POST /engine/resourcegroup/create': { json: group },
  'POST /engine/resourcegroup/update': { json: { resourceGroupId: 1, ...group, maxQueued: 20 } },
  'POST /engine/selector/create': { json: selector },
  'POST /engine/selector/update': { json: { current: stored, update: { ...stored, priority: 2 } } },
  'POST /engine/selector/delete': { json: { ...stored, priority: 2 } },
  'POST /engine/globalproperty/create': { json: property },
  'POST /engine/globalproperty/update': { json: property },
  'POST /api/resourcegroups/explain': { json: { user: 'u', environment: 'test' } },
  'POST /entity': { path: '/entity?entityType=GATEWAY_BACKEND', json: cluster },
  'POST /webapp/saveBackend': { json: { ...cluster, name: 'c' } },
  'POST /webapp/updateBackend': { json: { ...cluster, name: 'c' } },
  'POST /webapp/deleteBackend': { json: { name: 'c' } },
  'POST /webapp/findQueryHistory': { json: { page: 1, size: 10 } },
  'POST /webapp/getDistribution': { json: { latestHour: 1 } },
  'POST /api/history/search': { json: { limit: 10 } },
  'POST /webapp/findResourceGroup': { json: { page: 1, size: 10 } },
  'POST /webapp/getResourceGroup': { json: { resourceGroupId: 1 } },
  'POST /webapp/saveResourceGroup': { json: { data: { ...group, name: 'h' } } },
  'POST /webapp/updateResourceGroup': { json: { data: { resourceGroupId: 2, ...group, name: 'h' } } },
  'POST /webapp/deleteResourceGroup': { json: { data: { resourceGroupId: 2 } } },
  'POST /webapp/findSelector': { json: { page: 1, size: 10 } },
  'POST /webapp/getSelector': { json: { resourceGroupId: 1 } },
  'POST /webapp/saveSelector': { json: { data: stored } },
  'POST /webapp/updateSelector': { json: { data: { ...stored, priority: 3 }, oldData: stored } },
  'POST /webapp/deleteSelector': { json: { data: { ...stored, priority: 3 } } },
  'POST /webapp/findGlobalProperty': { json: { page: 1, size: 10 } },
  'POST /webapp/getGlobalProperty': { json: { name: property.name } },
  'POST /webapp/saveGlobalProperty': { json: { data: property } },
  'POST /webapp/updateGlobalProperty': { json: { data: property } },
  'POST /webapp/deleteGlobalProperty': { json: { data: { name: property.name } } },
  'POST /webapp/saveExactMatchSourceSelector': {
    json: { environment: 'test', source: 's', queryType: 'SELECT', resourceGroupId: 'global.g' },
  },
  'POST /webapp/updateRoutingRules': { json: rule },
  'POST /api/rules': { json: { ...rule, name: 'later' } },
  'PUT /api/rules/{name}': { json: { condition: 'false', actions: rule.actions, priority: 3 } },
  'POST /api/rules/impact': {
    json: { changes: [{ name: 'etl', rule: { condition: 'true', actions: rule.actions } }] },
  },
  'POST /api/explain': { json: statement },
  'GET /api/statistics': { path: '/api/statistics?by=user' },
};

/** Operations whose response does not end: only its head is recorded. */
const streams = new Set(['GET /api/events']);
/** Operations that depend on the build of the pages. */
const skipped = new Set(['GET /']);

const ROLES = ['nobody', 'NONE', 'USER', 'API', 'ADMIN'] as const;

const manifests = (engine: string): string => `apiVersion: enginegateway.dev/v1
kind: EngineCluster
metadata: {name: a}
spec: {proxyTo: "${engine}", routingGroup: adhoc}
---
apiVersion: enginegateway.dev/v1
kind: RoutingRule
metadata: {name: etl}
spec: {priority: 1, condition: 'request.getHeader("X-Engine-Source") == "etl"', actions: ['result.put("routingGroup", "etl")']}
`;

/** Records status, form and error code of every operation of the OpenAPI document for five roles. */
export async function recordOperations(program: Program): Promise<Record<string, unknown>> {
  const engine = await startEngine();
  const recording: Record<string, Record<string, unknown>> = {};
  try {
    for (const role of ROLES) {
      const folder = mkdtempSync(join(tmpdir(), 'baseline-manifests-'));
      writeFileSync(join(folder, 'all.yaml'), manifestsFor(program, manifests(engine.url)));
      const { privateKeyRsa, publicKeyRsa } = sessionKeyPair();
      const gateway = await startProgram(program, {
        resources: { source: 'directory', directory: folder },
        requestAnalyzerConfig: { analyzeRequest: true },
        authentication: { form: { selfSignKeyPair: { privateKeyRsa, publicKeyRsa } } },
        authorization: { admin: 'ADMIN', user: 'USER', api: 'API' },
        presetUsers: Object.fromEntries(
          ROLES.map((name) => [name, { password: 'x', ...(name === 'NONE' ? {} : { privileges: name }) }]),
        ),
      });
      try {
        for (const [operation, answer] of await callAll(program, gateway, role)) {
          recording[operation] = { ...recording[operation], [role]: answer };
        }
      } finally {
        await gateway.stop();
        rmSync(folder, { recursive: true });
      }
    }
  } finally {
    await engine.stop();
  }
  return recording;
}

/** Names in paths. */
const names: Readonly<Record<string, string>> = {
  provider: 'oidc',
  namespace: 'default',
  resourceGroupId: '1',
  entityType: 'GATEWAY_BACKEND',
  id: '20260101_000000_00000_aaaaa',
};

async function callAll(
  program: Program,
  { url }: Gateway,
  role: string,
): Promise<readonly (readonly [string, unknown])[]> {
  const authorization = { Authorization: `Basic ${Buffer.from(`${role}:x`).toString('base64')}` };
  const headers = role === 'nobody' ? {} : authorization;
  const submitted = await fetch(`${url}/v1/statement`, {
    method: 'POST',
    body: 'SELECT 1',
    headers: { ...authorization, 'X-Engine-User': 'u' },
  });
  const { id: queryId = '20260101_000000_00000_aaaaa' } = (await submitted.json().catch(() => ({}))) as { id?: string };
  const document = (await (
    await fetch(`${url}/openapi.json`, {
      headers: { Authorization: `Basic ${Buffer.from('ADMIN:x').toString('base64')}` },
    })
  ).json()) as {
    paths: Record<string, Record<string, unknown>>;
  };
  const answers: (readonly [string, unknown])[] = [];
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const method of Object.keys(operations)) {
      const operation = `${method.toUpperCase()} ${path}`;
      if (skipped.has(operation)) continue;
      const known = calls[operation] ?? {};
      const isSpec = /^PUT \/api\/(groups|limits)\//.test(operation);
      const call = isSpec ? { ...known, json: specFor(program, known.json as object) } : known;
      const target = (call.path ?? path).replace(/\{(\w+)\}/g, (_all, name: string) => {
        if (name === 'queryId') return queryId;
        if (name === 'name' && path.includes('/rules/')) return 'etl';
        if (name === 'name' && path.includes('globalproperty')) return property.name;
        if (name === 'name' && path.includes('/groups/')) return 'adhoc';
        return names[name] ?? 'a';
      });
      answers.push([operation, await responseOf(url + target, method, headers, call, streams.has(operation))]);
    }
  }
  return answers;
}

async function responseOf(
  url: string,
  method: string,
  headers: Readonly<Record<string, string>>,
  { json, text }: Call,
  isStream: boolean,
): Promise<unknown> {
  const abort = new AbortController();
  const timer = setTimeout(() => abort.abort(), 30_000);
  try {
    const response = await fetch(url, {
      method,
      redirect: 'manual',
      headers: { ...headers, ...(json === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(json === undefined ? { body: text ?? null } : { body: JSON.stringify(json) }),
      signal: abort.signal,
    });
    const type = response.headers.get('content-type')?.split(';', 1)[0] ?? null;
    const head = { status: response.status, type };
    if (isStream) return head;
    const body = await response.text();
    if (type !== 'application/json' || body === '') return head;
    const value = parsed(body);
    return { ...head, ...errorCode(value), body: url.endsWith('/openapi.json') ? 'object' : shapeOf(value) };
  } finally {
    clearTimeout(timer);
    abort.abort();
  }
}

function errorCode(value: unknown): { code?: unknown } {
  if (!isObject(value)) return {};
  if (isObject(value.error)) return { code: value.error.code };
  return typeof value.code === 'number' ? { code: value.code } : {};
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
