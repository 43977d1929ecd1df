import { existsSync, readFileSync } from 'node:fs';
import type { TSchema } from 'typebox';
import { afterEach, describe, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { compileCheck } from '../../../src/model/validation.ts';
import { type HealthVerdict, neverChecked, type RoutableCluster } from '../../../src/routing/routingTable.ts';
import { type ApiServer, startApi } from '../../support/apiServer.ts';
import { requireComponent } from '../../support/components.ts';
import { groupPolicy, groupsOf } from '../../support/groupPolicy.ts';
import { clusterAt } from '../../support/routableCluster.ts';

let api: ApiServer;
afterEach(() => api.close());

interface Member extends Partial<RoutableCluster> {
  readonly health?: Partial<HealthVerdict>;
}

/** An API over a group night of these clusters, of which each follows two queries where its check counts none. */
async function startWith(members: readonly Member[], waiting: number, maxRunning: number | null = null) {
  api = await startApi({
    waitingQueries: async (group) => ({ count: group === 'night' ? waiting : 0, complete: waiting < 9 }),
    runningQueries: async () => {
      const query = { cluster: 'n', started: 0, lastSeen: 0 };
      return { queries: ['q1', 'q2'].map((queryId) => ({ ...query, queryId })), complete: true };
    },
  });
  const clusters = members.map(({ health: _, ...more }, index) =>
    clusterAt(`n${index}`, `http://n${index}`, { routingGroup: 'night', ...more }),
  );
  const groups = groupsOf(groupPolicy('night', { maxRunning }), groupPolicy('asleep'));
  api.table.setInputs({ clusters, admission: { groups, limits: [] } });
  for (const [index, { health = {} }] of members.entries())
    api.table.setHealth(`n${index}`, `http://n${index}`, { ...neverChecked, ...health });
}

const scaling = async (group: string) => (await api.call('GET', `/api/scaling/${group}`)).json();
const healthy = (running: number | null, queued: number | null = 0) =>
  ({ status: 'HEALTHY', running, queued }) as const;

describe('the call', () => {
  test.each<[string, readonly Member[], number | null, object]>([
    ['nobody is there', [], null, { queued: 3, running: 0, demand: 3, capacity: 0 }],
    [
      'it sleeps',
      [{ active: false, health: { status: 'UNHEALTHY', running: 0, queued: 0 } }],
      null,
      { running: 0, capacity: 0 },
    ],
    ['it runs without limit', [{ health: healthy(4, 2) }], null, { running: 4, demand: 9, capacity: null }],
    ['of a group with a limit', [{ health: healthy(4) }], 10, { running: 4, demand: 7, capacity: 10 }],
    [
      'with limits',
      [1, 2].map((running) => ({ maxRunningQueries: 8, health: healthy(running) })),
      null,
      { running: 3, capacity: 16 },
    ],
    ['the lower limit counts', [{ maxRunningQueries: 8, health: healthy(0) }], 5, { capacity: 5 }],
    ['nothing is counted there', [{ health: healthy(null, null) }], null, { running: 2, demand: 5 }],
  ])('%s', async (_what, members, maxRunning, expected) => {
    await startWith(members, 3, maxRunning);
    const response = await scaling('night');
    expect(response).toMatchObject({ group: 'night', queued: 3, complete: true, ...expected });
    const isHealthy = ({ active = true, health }: Member) => active && health?.status === 'HEALTHY';
    expect(response.clusters).toEqual({
      registered: members.length,
      active: members.filter(({ active }) => active !== false).length,
      healthy: members.filter(isHealthy).length,
    });
  });

  test('says that counts are not complete while what waits elsewhere is not known', async () => {
    await startWith([{ health: healthy(1) }], 9);
    expect(await scaling('night')).toMatchObject({ queued: 9, running: 1, complete: false });
  });

  test('knows groups by their clusters and by their RoutingGroup', async () => {
    await startWith([], 0);
    expect(await scaling('asleep')).toMatchObject({ queued: 0, clusters: { registered: 0 } });
    const unknown = await api.call('GET', '/api/scaling/nowhere');
    expect([unknown.status, unknown.json().error.message]).toEqual([
      404,
      'There is no routing group "nowhere": no cluster belongs to it, and no resource declares it.',
    ]);
  });
});

type Json = Record<string, unknown>;

/** Documents of the sample. */
const sample = (file: string) =>
  parseAllDocuments(readFileSync(`manifests/samples/keda/${file}`, 'utf8')).map(
    (document) => document.toJSON() as Json,
  );
const scaledObject = sample('scaledobject.yaml')[0] as {
  spec: { triggers: { type: string; metadata: Record<string, string>; authenticationRef: { name: string } }[] };
};

test('each trigger of the KEDA sample finds its number at the real endpoint', async () => {
  await startWith([{ health: healthy(4) }], 3);
  const values = [];
  for (const { type, metadata, authenticationRef } of scaledObject.spec.triggers) {
    expect([type, metadata.authMode, authenticationRef.name]).toEqual(['metrics-api', 'bearer', 'engine-gateway']);
    const response = await api.call('GET', new URL(metadata.url!).pathname);
    expect(response.status).toBe(200);
    // A name without dots and wildcards is its own GJSON path.
    expect(metadata.valueLocation).toMatch(/^[a-z]+$/);
    values.push((response.json() as Json)[metadata.valueLocation!]);
  }
  expect(values).toEqual([3, 4]);
});

const crdFolder = '.cache/keda';
const hasCrds = requireComponent(
  'CRDs of KEDA',
  existsSync(`${crdFolder}/keda.sh_scaledobjects.yaml`),
  'copy config/crd/bases of the Go module github.com/kedacore/keda/v2 to .cache/keda, as .ci/run does',
);

test.runIf(hasCrds).each(['scaledobjects', 'triggerauthentications'])(
  'the sample is valid by the CRD of %s',
  async (plural) => {
    await startWith([], 0);
    const crd = parse(readFileSync(`${crdFolder}/keda.sh_${plural}.yaml`, 'utf8'));
    const [version] = crd.spec.versions;
    const check = compileCheck(strict(version.schema.openAPIV3Schema) as TSchema);
    const documents = sample('scaledobject.yaml').filter(({ kind }) => kind === crd.spec.names.kind);
    expect(documents).toHaveLength(1);
    for (const document of documents) {
      expect(document.apiVersion).toBe(`${crd.spec.group}/${version.name}`);
      expect(check(document)).toMatchObject({ ok: true });
      expect(check({ ...document, spec: { ...(document.spec as Json), unknown: 1 } }).ok).toBe(false);
    }
  },
);

/** A schema of a CRD that refuses fields which the API server would drop. */
function strict(schema: Json, isRoot = true): Json {
  const properties = schema.properties as Record<string, Json> | undefined;
  const items = schema.items as Json | undefined;
  return {
    ...schema,
    ...(items === undefined ? {} : { items: strict(items, false) }),
    ...(properties === undefined
      ? {}
      : {
          properties: Object.fromEntries(
            Object.entries(properties).map(([name, of]) => [
              name,
              isRoot && name === 'metadata' ? of : strict(of, false),
            ]),
          ),
          additionalProperties: false,
        }),
  };
}
