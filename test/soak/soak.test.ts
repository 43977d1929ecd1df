import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type LoadResult, reasonsOf, startLoad } from '../faults/load.ts';
import { startWorld, type World } from '../faults/world.ts';
import { type ControlPlane, controlPlaneAvailable } from '../support/controlPlane.ts';
import { type KubeRig, kubeRig, startPlane } from '../support/kubeRig.ts';
import { hasPostgresql, startPostgresql } from '../support/postgresql.ts';
import type { TestServer } from '../support/serverProcess.ts';
import { startChanges } from './changes.ts';
import { Series } from './figures.ts';
import { startVariety } from './variety.ts';

/** Length of the measured time; SOAK_SECONDS changes it. */
const SECONDS = Number(process.env.SOAK_SECONDS ?? 1_200);
/** Before it: caches fill, code is compiled, pools reach their size. */
const WARM_UP_SECONDS = Math.min(60, SECONDS / 4);
const SAMPLES = 40;
/** Queries of plain clients at once; as many as keep half of two processors free. */
const CONNECTIONS = 16;
const ODD_CLIENTS = 2;

const probe = resolve('test/soak/probe.ts');

describe.skipIf(!hasPostgresql())('a long mixed load with resources that change every second', () => {
  let folder: string;
  let server: TestServer;
  let plane: ControlPlane | undefined;
  let rig: KubeRig | undefined;
  let world: World;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'soak-'));
    server = await startPostgresql();
    const common = {
      database: await server.createDatabase(),
      clusters: { a: 'adhoc', b: 'adhoc', c: 'etl' },
      environment: { NODE_OPTIONS: `--import=${probe}`, SOAK_PROBES: folder },
    };
    const config = { requestAnalyzerConfig: { analyzeRequest: true } };
    if (controlPlaneAvailable) {
      plane = await startPlane();
      const kube = await kubeRig(plane);
      rig = kube;
      world = await startWorld({
        ...common,
        apply: (manifest) => kube.apply('kubectl', manifest),
        config: { ...config, resources: { source: 'kubernetes', kubeconfig: kube.kubeconfig } },
      });
    } else world = await startWorld({ ...common, config });
  });
  afterAll(async () => {
    await world?.close();
    await rig?.stop();
    await plane?.stop();
    await server?.dispose();
    await rm(folder, { recursive: true, force: true });
  });

  test(`${SECONDS} s: memory, open files and event-loop delay stay flat; no query fails`, {
    timeout: (WARM_UP_SECONDS + SECONDS) * 1_000 * 2 + 240_000,
  }, async () => {
    const reference = spawn(process.execPath, [resolve('test/soak/reference.ts')], {
      env: { ...process.env, SOAK_PROBES: folder },
      stdio: 'ignore',
    });
    const load = startLoad({ bases: world.bases, connections: CONNECTIONS, slowShare: 0.2, maxPause: 500 });
    const variety = startVariety(world.bases, ODD_CLIENTS);
    const changes = startChanges(world, world.cluster('b').url);
    const replicas = world.replicas.map(({ pid }, index) => new Series(`replica ${index + 1}`, pid, folder));
    const machine = new Series('reference process', reference.pid ?? 0, folder);
    const watched = [...replicas, machine];
    let result: LoadResult;
    let ended = 0;
    const startedAt = performance.now();
    try {
      await pause(WARM_UP_SECONDS * 1_000);
      await Promise.all(watched.map((series) => series.start()));
      ended = load.queries.length;
      for (let count = 1; count <= SAMPLES; count++) {
        await pause((SECONDS * 1_000) / SAMPLES);
        await Promise.all(watched.map((series) => series.sample()));
      }
      ended = load.queries.length - ended;
    } finally {
      await Promise.all([changes.stop(), variety.stop()]);
      result = await load.stop();
      reference.kill();
    }
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    const habits = [...variety.counts.values()].reduce((sum, count) => sum + count, 0);
    console.log(
      [
        `${seconds} s with warming up; ${result.queries.length} queries, ${Math.round(ended / SECONDS)} a second; ${result.failed.length} failed, ${result.repeated} requests again`,
        `${habits} other doings, ${changes.count} changes of resources (${rig === undefined ? 'directory' : 'Kubernetes'})`,
        ...watched.flatMap((series) => ['', ...series.table]),
      ].join('\n'),
    );
    expect(reasonsOf(result.failed)).toEqual([]);
    expect(variety.surprises).toEqual([]);
    expect(changes.surprises).toEqual([]);
    expect(changes.count).toBeGreaterThan((SECONDS + WARM_UP_SECONDS) / 2);
    expect(replicas.flatMap((replica) => replica.growing(machine))).toEqual([]);
    expect(await world.fired()).toEqual([]);
    expect(await world.missingInHistory(result.queries)).toBe(0);
  });
});
