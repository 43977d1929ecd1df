import { execFileSync } from 'node:child_process';
import { mkdtemp, open, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { GroupFile } from '../../../../src/gateway/user/groups/groupFile.ts';
import type { Asker } from '../../../../src/gateway/user/groups/groupSource.ts';
import { byLogin } from '../../../../src/gateway/user/userEvidence.ts';

const HOUR = 3_600_000;
const ann: Asker = { user: 'ann', doubt: null, evidence: byLogin, headers: [], address: undefined };

let folder: string;
let path: string;
const clock = { time: 0, monotonic: () => clock.time };
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'groups-'));
  path = join(folder, 'groups.txt');
  clock.time = 0;
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const settings = () => ({ path, refreshPeriod: 20, keepLastKnown: HOUR, readTimeout: 100 });
const dependencies = { clock, logger: pino({ level: 'silent' }) };
/** Has the next reading block, as a file of a network file system that does not answer does. */
const block = async () => {
  execFileSync('mkfifo', [`${path}.pipe`]);
  await rename(`${path}.pipe`, path);
};

test('a file that does not answer is one that cannot be used, until it answers', async () => {
  await writeFile(path, 'etl:ann\n');
  const file = await GroupFile.open(settings(), dependencies);
  try {
    expect(file.groupsOf(ann)).toEqual({ groups: ['etl'] });
    await block();
    const why = `userGroups.file.path: ${path}: was not read within 0.1 seconds.`;
    await vi.waitFor(() => expect(file.groupsOf(ann)).toEqual({ groups: ['etl'], note: `last known: ${why}` }), {
      timeout: 5_000,
    });
    clock.time = HOUR;
    expect(file.groupsOf(ann)).toEqual({ groups: [], note: why });
    const pipe = await open(path, 'w');
    await pipe.close();
    await writeFile(`${path}.new`, 'admins:ann\n');
    await rename(`${path}.new`, path);
    await vi.waitFor(() => expect(file.groupsOf(ann)).toEqual({ groups: ['admins'] }), { timeout: 5_000 });
  } finally {
    file.stop();
  }
});

test('a file that does not answer at the start is refused by name', async () => {
  await block();
  await expect(GroupFile.open(settings(), dependencies)).rejects.toThrow(
    `userGroups.file.path: ${path}: was not read within 0.1 seconds.`,
  );
  const pipe = await open(path, 'w');
  await pipe.close();
});
