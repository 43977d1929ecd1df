import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { resourceKinds } from '../../src/kinds/registry.ts';
import { kindVersion } from '../../src/model/resource.ts';
import { requireComponent } from '../support/components.ts';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { clusterManifest, type KubeRig, kubeRig, startPlane } from '../support/kubeRig.ts';
import { manifest } from '../support/manifest.ts';

const luaAvailable = requireComponent(
  'lua5.4',
  spawnSync('lua5.4', ['-v']).status === 0,
  "install Debian's package lua5.4",
);

/** Writes a plain value as a Lua literal. */
function lua(value: unknown): string {
  if (Array.isArray(value)) return `{${value.map(lua).join(',')}}`;
  if (typeof value === 'object' && value !== null) {
    return `{${Object.entries(value)
      .map(([key, item]) => `["${key}"]=${lua(item)}`)
      .join(',')}}`;
  }
  return JSON.stringify(value);
}

const { data } = parse(readFileSync('manifests/gitops/argocd-cm.yaml', 'utf8')) as { data: Record<string, string> };
const group = 'enginegateway.dev';

/** Runs a script of Argo CD as it does: with the resource as `obj`, and of the libraries only tables and os. */
function runScript(script: string, obj: object, print: string): string {
  const sandbox = '{ obj = obj, ipairs = ipairs, pairs = pairs, tostring = tostring, require = only_os }';
  const program = [
    `local obj = ${lua(obj)}`,
    "local function only_os(name) assert(name == 'os', name) return { date = os.date, time = os.time } end",
    `local script = [==[\n${script}]==]`,
    `local result = assert(load(script, 'script', 't', ${sandbox}))()`,
    print,
  ];
  return execFileSync('lua5.4', ['-'], { input: program.join('\n'), encoding: 'utf8' }).trim();
}

const health = (obj: object, kind = 'EngineCluster'): string =>
  runScript(
    data[`resource.customizations.health.${group}_${kind}`] ?? '',
    obj,
    "print(result.status .. ': ' .. result.message)",
  );

interface Actions {
  readonly 'discovery.lua': string;
  readonly definitions: readonly { readonly name: string; readonly 'action.lua': string }[];
}
const actionsOf = (kind: string): Actions =>
  parse(data[`resource.customizations.actions.${group}_${kind}`] ?? '') as Actions;

/** Names of the actions that are offered for a resource. */
function offered(kind: string, obj: object): readonly string[] {
  const print = 'for name, action in pairs(result) do if not action.disabled then print(name) end end';
  return runScript(actionsOf(kind)['discovery.lua'], obj, print).split('\n').sort();
}

/** Annotations of a resource after an action, and whether it is suspended. */
function stateAfter(kind: string, action: string, obj: object) {
  const script = actionsOf(kind).definitions.find(({ name }) => name === action)?.['action.lua'];
  if (script === undefined) throw new Error(`no action ${action}`);
  const print =
    "print(result.spec.suspend == true); for name, value in pairs(result.metadata.annotations or {}) do print(name .. '=' .. value) end";
  const [suspend, ...lines] = runScript(script, obj, print).split('\n');
  const entries = lines.map((line) => [line.split('=', 1)[0], line.slice(line.indexOf('=') + 1)] as const);
  const annotations: Readonly<Record<string, string>> = Object.fromEntries(entries);
  return { annotations, suspend: suspend === 'true' };
}

interface Resource {
  readonly metadata: { readonly generation: number; readonly annotations?: object };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

/** The status of a resource by the rules of kstatus, by which Flux waits: generation, `Stalled`, `Ready`. */
function kstatus({ metadata: { generation }, status: { observedGeneration, conditions = [] } = {} }: Resource): string {
  const statusOf = (type: string) => conditions.find((each) => each.type === type)?.status;
  if (observedGeneration !== undefined && observedGeneration !== generation) return 'InProgress';
  if (statusOf('Reconciling') === 'True') return 'InProgress';
  if (statusOf('Stalled') === 'True') return 'Failed';
  return (statusOf('Ready') ?? 'True') === 'True' ? 'Current' : 'InProgress';
}
const statusOfHealth: Readonly<Record<string, string>> = {
  ...{ Healthy: 'Current', Suspended: 'Current', Progressing: 'InProgress', Degraded: 'Failed' },
};

const condition = (type: string, status: string, message: string, reason = 'Reason') => ({
  type,
  status,
  message,
  reason,
});

/** A resource whose status is of its generation, or of an earlier one. */
const seen = (conditions: readonly object[], generation = 1) => ({
  metadata: { generation },
  status: { observedGeneration: 1, conditions },
});
const ready = condition('Ready', 'True', 'routed');

describe.skipIf(!luaAvailable)('the Argo CD health check', () => {
  test.each([
    ['never seen by the gateway', { metadata: { generation: 1 } }, 'Progressing: Waiting for the gateway'],
    ['changed since', seen([ready], 2), 'Progressing: Waiting for the gateway'],
    ['ready', seen([ready]), 'Healthy: routed'],
    ['ready while the engine is down', seen([condition('Healthy', 'False', 'down'), ready]), 'Healthy: routed'],
    [
      'not yet in the database',
      seen([condition('Ready', 'False', 'database unavailable')]),
      'Progressing: database unavailable',
    ],
    [
      'never going to work',
      seen([condition('Ready', 'False', 'x'), condition('Stalled', 'True', 'line 1:3: unknown')]),
      'Degraded: line 1:3: unknown',
    ],
    ['suspended', seen([ready, condition('Suspended', 'True', 'not acted on')]), 'Suspended: not acted on'],
    [
      'switched off by a user',
      seen([ready, condition('Active', 'False', 'deactivated by alice', 'Overridden')]),
      'Suspended: deactivated by alice',
    ],
    [
      'switched off in Git',
      seen([ready, condition('Active', 'False', 'spec.active is false', 'AsSpecified')]),
      'Healthy: routed',
    ],
  ])('%s', (_name, obj, expected) => {
    expect(health(obj)).toBe(expected);
  });

  test('that of rules reads the same conditions', () => {
    const stalled = seen([condition('Stalled', 'True', 'line 1:3: unknown')]);
    expect(health(stalled, 'RoutingRule')).toBe('Degraded: line 1:3: unknown');
  });
});

describe.skipIf(!luaAvailable || !controlPlaneAvailable)('the actions of Argo CD on a real API server', () => {
  let plane: ControlPlane;
  let rig: KubeRig;
  beforeAll(async () => {
    // Tenants are read with all namespaces, where gateways of other tests would disturb.
    plane = await startPlane();
    rig = await kubeRig(plane, { allNamespaces: true });
    await rig.startOperator();
  });
  afterAll(async () => {
    await rig?.stop();
    await plane?.stop();
  });

  const read = async (kind = 'EngineCluster') =>
    JSON.parse(await rig.kubectl(['get', kind.toLowerCase(), 'a', '-o', 'json'])) as Resource;
  const run = async (action: string, kind = 'EngineCluster'): Promise<void> => {
    const before = await read(kind);
    expect(offered(kind, before)).toContain(action);
    const owned = `${group}/`;
    const { annotations: after, suspend } = stateAfter(kind, action, before);
    // Argo CD sends the difference as a merge patch, with null for what the script removed.
    const names = Object.keys(before.metadata.annotations ?? {});
    const removed = names.filter((name) => name.startsWith(owned) && after[name] === undefined);
    const annotations = { ...after, ...Object.fromEntries(removed.map((name) => [name, null])) };
    await rig.kubectl([
      'patch',
      kind.toLowerCase(),
      'a',
      '--type',
      'merge',
      '-p',
      JSON.stringify({ metadata: { annotations }, spec: { suspend } }),
    ]);
  };
  const becomes = async (state: RegExp, actions: readonly string[], kind = 'EngineCluster'): Promise<void> => {
    await vi.waitFor(
      async () => {
        const obj = await read(kind);
        expect(health(obj, kind)).toMatch(state);
        expect(offered(kind, obj)).toEqual(actions);
        expect(kstatus(obj)).toBe(statusOfHealth[health(obj, kind).split(':')[0] ?? '']);
      },
      { timeout: 30_000, interval: 100 },
    );
  };

  test('switch a cluster off and on, suspend and resume it', async () => {
    const on = ['deactivate', 'drain', 'suspend'];
    await rig.apply('argocd-controller', clusterManifest('a'));
    await becomes(/^Healthy/, on);
    for (const action of ['deactivate', 'drain']) {
      await run(action);
      await becomes(/^Suspended: deactivated by Argo CD at [-:0-9TZ]+; spec.active is true/, ['activate', 'suspend']);
      await run('activate');
      await becomes(/^Healthy/, on);
    }
    await run('suspend');
    await becomes(/^Suspended: spec.suspend is true/, ['deactivate', 'drain', 'resume']);
    await run('resume');
    await becomes(/^Healthy/, on);
    await rig.apply('argocd-controller', clusterManifest('a', { active: false }));
    await becomes(/^Healthy/, ['activate', 'suspend']);
    await run('activate');
    await becomes(/^Healthy/, on);
  });

  test.each(
    resourceKinds.all
      .filter(({ kind }) => kind !== 'EngineCluster')
      .map(({ kind, example }) => [kind, example] as const),
  )('suspend and resume a %s, as kstatus sees it', async (kind, example) => {
    await rig.kubectl(['apply', '--server-side', '-f', '-'], manifest(kind, 'a', example));
    // References of examples lead nowhere here.
    await becomes(/^(Healthy|Progressing|Degraded): (?!Waiting)/, ['suspend'], kind);
    await run('suspend', kind);
    await becomes(/^Suspended: spec.suspend is true/, ['resume'], kind);
    await run('resume', kind);
    await becomes(/^(Healthy|Progressing|Degraded): (?!Waiting)/, ['suspend'], kind);
  });
});

test('kube-state-metrics reports the conditions of all kinds', () => {
  const file = parse(readFileSync('manifests/samples/kube-state-metrics/config.yaml', 'utf8'));
  const { resources } = file.spec as { resources: { groupVersionKind: object; metrics: object[] }[] };
  const kinds = resourceKinds.all.map(({ kind }) => ({ group, version: kindVersion(kind), kind }));
  const byKind = (a: { kind: string }, b: { kind: string }) => a.kind.localeCompare(b.kind);
  expect(resources.map(({ groupVersionKind }) => groupVersionKind)).toEqual(kinds.toSorted(byKind));
  for (const { metrics } of resources) expect(metrics).toEqual(resources[0]?.metrics);
});
