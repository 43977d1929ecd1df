import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { requireComponent } from '../support/components.ts';
import { hasMariadb, startMariadb } from '../support/mariadb.ts';
import type { TestServer } from '../support/serverProcess.ts';
import { type Load, reasonsOf, startLoad } from './load.ts';
import { startWorld, type World } from './world.ts';

/** A disk of one megabyte, mounted on a folder of its own; null where that is not allowed. */
function smallDisk(): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'small-disk-'));
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m,mode=0777', 'tmpfs', folder]);
  if (mounted.status === 0) return folder;
  rmSync(folder, { recursive: true, force: true });
  return null;
}

function removeDisk(folder: string): void {
  const { status, stderr } = spawnSync('umount', [folder], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`umount ${folder} failed: ${stderr}`);
  rmSync(folder, { recursive: true, force: true });
}

/** Looks whether a disk can be mounted, and takes it away again. */
function canMount(): boolean {
  const disk = smallDisk();
  if (disk !== null) removeDisk(disk);
  return disk !== null;
}

const available =
  hasMariadb() && requireComponent('the right to mount a tmpfs', canMount(), 'run as root, in a container privileged');

/** Records in memory per replica; as many again may wait beside those on their way to the disk. */
const BUFFER = 20;

describe.skipIf(!available)('the disk of the waiting history is full while the database is unavailable', () => {
  let disk: string;
  let server: TestServer;
  let world: World;
  let load: Load;
  beforeAll(async () => {
    disk = smallDisk() as string;
    server = await startMariadb();
    world = await startWorld({
      database: await server.createDatabase(),
      clusters: { a: 'adhoc', b: 'adhoc' },
      config: { queryHistory: { spillDirectory: disk, bufferSize: BUFFER } },
    });
  });
  afterAll(async () => {
    await load?.stop();
    await world?.close();
    await server?.dispose();
    if (disk !== undefined) removeDisk(disk);
  });

  test('no query fails; what is missing in the history is counted to the last one, and the rest is there', async () => {
    const lost = () => world.metric('engine_gateway_history_lost_total');
    load = startLoad({ bases: world.bases, padding: 6_000 });
    await load.progress(50);
    await server.stop(true);
    await expect.poll(lost, { timeout: 120_000, interval: 500 }).toBeGreaterThan(50);
    await load.progress(100);
    await world.raised('EngineGatewayHistorySpilling', 'EngineGatewayHistoryLost');
    await server.start();
    const { failed, repeated, queries } = await load.stop();
    expect(reasonsOf(failed)).toEqual([]);
    expect(repeated).toBe(0);
    await expect.poll(() => world.metric('engine_gateway_history_depth'), { timeout: 60_000 }).toBe(0);
    const missing = await world.missingInHistory(queries, 10_000);
    expect(missing).toBe(await lost());
    expect(missing).toBeLessThan(queries.length);

    // The disk has room again, and the next outage loses nothing.
    const before = await lost();
    load = startLoad({ bases: world.bases });
    await server.stop(true);
    await load.progress(150);
    await server.start();
    const second = await load.stop();
    expect(reasonsOf(second.failed)).toEqual([]);
    expect(await world.missingInHistory(second.queries)).toBe(0);
    expect(await lost()).toBe(before);
  });
});
