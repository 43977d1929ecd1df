import { mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { parse } from 'yaml';
import { resourceKinds } from '../../../src/kinds/registry.ts';
import { systemClock } from '../../../src/model/clock.ts';
import type { ResourceKey } from '../../../src/model/resource.ts';
import {
  DirectorySource,
  type DirectorySourceOptions,
} from '../../../src/operator/sources/directory/directorySource.ts';
import { annotate } from '../../../src/operator/sources/source.ts';

let directory: string;
const sources: DirectorySource[] = [];

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'eg-manifests-'));
});
afterEach(async () => {
  for (const source of sources.splice(0)) await source.stop();
  await rm(directory, { recursive: true, force: true });
});

const started = async (times: DirectorySourceOptions['times'] = {}, clock = systemClock): Promise<DirectorySource> => {
  const source = new DirectorySource({
    kinds: resourceKinds,
    directory,
    namespace: 'default',
    clock,
    logger: pino({ enabled: false }),
    times: { settleMs: 20, confirmDeletionMs: 800, confirmEmptyMs: 1_000, pollMs: 200, ...times },
  });
  sources.push(source);
  await source.start(30_000);
  return source;
};

const cluster = (name: string, url = `http://${name}:8080`): string =>
  `# cluster ${name}\napiVersion: enginegateway.dev/v1beta1\nkind: EngineCluster\nmetadata:\n  name: ${name}\nspec:\n  proxyTo: ${url}\n  routingGroup: adhoc\n`;
const rule = (name: string): string =>
  `---\napiVersion: enginegateway.dev/v1beta1\nkind: RoutingRule\nmetadata: {name: ${name}}\nspec: {condition: "true", routeTo: {routingGroup: adhoc}}\n`;
const key = (name: string): ResourceKey => ({ kind: 'EngineCluster', namespace: 'default', name });
const path = (name: string): string => join(directory, name);
const write = (name: string, text: string): Promise<void> => writeFile(path(name), text);
const read = (name: string): Promise<string> => readFile(path(name), 'utf8');
const names = (source: DirectorySource): string[] =>
  source
    .list('EngineCluster')
    .map((resource) => resource.metadata.name)
    .sort();
const until = (check: () => void): Promise<void> => vi.waitFor(check, { timeout: 30_000, interval: 10 });
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

test('resources of all files are read, and changes are followed', async () => {
  await write('a.yaml', `${cluster('a')}${rule('r')}`);
  await mkdir(path('more'));
  await write('more/b.yml', cluster('b'));
  await write(
    'c.json',
    JSON.stringify({ apiVersion: 'enginegateway.dev/v1beta1', kind: 'EngineCluster', metadata: { name: 'c' } }),
  );
  await write('notes.txt', 'no manifest');
  const source = await started();
  expect(names(source)).toEqual(['a', 'b', 'c']);
  expect(source.list('RoutingRule')).toHaveLength(1);
  const changed: string[] = [];
  source.watch((changedKey) => changed.push(changedKey.name));
  const before = source.get(key('b'));
  await write('more/b.yml', cluster('b', 'http://other:1'));
  await until(() => expect(source.get(key('b'))?.spec.proxyTo).toBe('http://other:1'));
  const after = source.get(key('b'));
  expect(after?.metadata).toMatchObject({ uid: before?.metadata.uid, generation: 2 });
  expect(BigInt(after!.metadata.resourceVersion)).toBeGreaterThan(BigInt(before!.metadata.resourceVersion));
  expect(changed).toEqual(['b']);
});

test('a touched file changes nothing', async () => {
  await write('a.yaml', cluster('a'));
  const source = await started();
  const before = source.get(key('a'));
  await write('a.yaml', cluster('a'));
  await write('b.yaml', cluster('b'));
  await until(() => expect(names(source)).toEqual(['a', 'b']));
  expect(source.get(key('a'))).toBe(before);
});

test('a broken document keeps its last good version, is reported with its place, and disturbs no other', async () => {
  await write('a.yaml', `${cluster('a')}---\n${cluster('b')}---\n${cluster('c')}`);
  const source = await started();
  await write('a.yaml', `${cluster('a', 'http://new:1')}---\n${cluster('b').replace('spec:', 'spec: "')}`);
  await until(() => expect(source.get(key('a'))?.spec.proxyTo).toBe('http://new:1'));
  expect(source.problems()).toMatchObject([{ place: path('a.yaml'), document: 2 }]);
  expect(source.problems()[0]?.line).toBeGreaterThan(9);
  await until(() => expect(names(source)).toEqual(['a', 'b']));
  await pause(300);
  expect(source.get(key('b'))?.spec.proxyTo).toBe('http://b:8080');
});

/** Lines below `spec` of a document, 10 MB together. */
const megabytes = (line: (index: number) => string): string => {
  const lines: string[] = [];
  for (let size = 0; size < 10_000_000; size += lines.at(-1)!.length) lines.push(line(lines.length));
  return lines.join('');
};
const bombs: readonly (readonly [name: string, text: () => string, limit: string])[] = [
  ['one document of 10 MB', () => megabytes((index) => `  k${index}: 1\n`), 'has more than 1048576 characters'],
  ['a chain of aliases', () => megabytes((at) => `  a${at + 1}: &a${at + 1} [*a${at}]\n`).slice(0, 1e6), '100 aliases'],
  ['many keys', () => megabytes((index) => `  k${index}: 1\n`).slice(0, 1e6), 'has more than 100000 words and signs'],
  ['deep brackets', () => `  a: ${'['.repeat(50_000)}\n`, 'has more than 100 levels of brackets'],
];
test.each(bombs)(
  '%s: named with the limit within bounds of time and memory, others are read',
  async (_, text, limit) => {
    const bomb = `${cluster('bomb')}${text()}`;
    await write('bomb.yaml', Array.from({ length: Math.ceil(1e7 / bomb.length) }, () => bomb).join('\n---\n'));
    await write('a.yaml', cluster('a'));
    const memory = process.resourceUsage().maxRSS;
    const before = process.cpuUsage();
    const source = await started();
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1_000).toBeLessThan(10_000);
    expect((process.resourceUsage().maxRSS - memory) / 1024).toBeLessThan(150);
    expect(names(source)).toEqual(['a']);
    expect(source.problems()[0]).toMatchObject({ place: path('bomb.yaml'), message: expect.stringContaining(limit) });
    await write('b.yaml', cluster('b'));
    await until(() => expect(names(source)).toEqual(['a', 'b']));
  },
);

test('values at the edges of YAML mean the same with both libraries that read manifests', async () => {
  const texts = 'on|yes|0o17|017|0x1F|1_000|1e3|+1|-.Inf|~|Null|TRUE|tRue|1.|.5|1:30|12345678901234567890|2026-11-26';
  const values = [...texts.split('|'), '{<<: {b: 1}}', '{1: x}', '!!str 1', '{__proto__: {x: 1}}', 'x #y', '"\\u263a"'];
  const spec = values.map((value, index) => `  v${index}: ${value}\n`).join('');
  await write('a.yaml', `${cluster('a').split('  proxyTo')[0]}${spec}`);
  const source = await started();
  expect(source.get(key('a'))?.spec).toEqual((parse(`spec:\n${spec}`) as { spec: object }).spec);
});
test('an emptied, half-written or absent file is no deletion until it stays so', async () => {
  await write('a.yaml', `${cluster('a')}---\n${cluster('b')}`);
  await write('z.yaml', cluster('z'));
  let ahead = 0;
  const clock = { now: () => Date.now(), monotonic: () => performance.now() + ahead };
  const source = await started({ confirmDeletionMs: 600_000, confirmEmptyMs: 600_000 }, clock);
  const changed: string[] = [];
  source.watch(({ name }) => changed.push(name));
  let weight = 0;
  /** Waits until what was done to other files has been seen, by a change of this one that comes after it. */
  const looked = async () => {
    weight += 1;
    await write('z.yaml', `${cluster('z')}  weight: ${weight}\n`);
    await until(() => expect(source.get(key('z'))?.spec.weight).toBe(weight));
  };
  for (const disturb of [
    () => write('a.yaml', ''),
    () => unlink(path('a.yaml')),
    () => write('a.yaml', cluster('a')),
  ]) {
    await disturb();
    await looked();
    expect(names(source)).toEqual(['a', 'b', 'z']);
    await write('a.yaml', `${cluster('a')}---\n${cluster('b')}`);
    await looked();
  }
  const others = () => changed.filter((name) => name !== 'z');
  expect(others()).toEqual([]);
  await write('a.yaml', cluster('b'));
  await looked();
  ahead += 600_000;
  await until(() => expect(names(source)).toEqual(['b', 'z']));
  expect(others()).toEqual(['a']);
  await unlink(path('a.yaml'));
  await looked();
  ahead += 600_000;
  await until(() => expect(names(source)).toEqual(['z']));
});

test('a resource that moves to another file is not deleted in between', async () => {
  await write('a.yaml', cluster('a'));
  await write('b.yaml', cluster('b'));
  const source = await started();
  const before = source.get(key('a'));
  await rename(path('a.yaml'), path('c.yaml'));
  await pause(1_200);
  expect(source.get(key('a'))).toBe(before);
  const held = source.get(key('a'))!;
  await source.apply(
    key('a'),
    { set: { weight: 1 }, remove: [], annotations: {} },
    { force: false, expectedVersion: held.metadata.resourceVersion },
  );
  expect(await read('c.yaml')).toContain('weight: 1');
});

test('the same identity in two files is reported; the first stays in force', async () => {
  await write('a.yaml', cluster('a'));
  const source = await started();
  await write('0.yaml', cluster('a', 'http://second:1'));
  await until(() => expect(source.problems()).toHaveLength(1));
  expect(source.problems()[0]).toMatchObject({ place: path('0.yaml'), document: 1, line: 1 });
  expect(source.get(key('a'))?.spec.proxyTo).toBe('http://a:8080');
  await unlink(path('a.yaml'));
  await until(() => expect(source.get(key('a'))?.spec.proxyTo).toBe('http://second:1'));
  expect(source.problems()).toEqual([]);
});

test('the links of a mounted ConfigMap are followed, and its files cannot be written', async () => {
  const version = async (name: string, text: string): Promise<void> => {
    await mkdir(path(name));
    await writeFile(join(path(name), 'a.yaml'), text);
    await symlink(name, path('..data_tmp'));
    await rename(path('..data_tmp'), path('..data'));
  };
  await version('..2026_1', cluster('a'));
  await symlink('..data/a.yaml', path('a.yaml'));
  const source = await started();
  expect(names(source)).toEqual(['a']);
  await version('..2026_2', cluster('a', 'http://swapped:1'));
  await until(() => expect(source.get(key('a'))?.spec.proxyTo).toBe('http://swapped:1'));
  const expectedVersion = source.get(key('a'))!.metadata.resourceVersion;
  const write = source.apply(
    key('a'),
    { set: { weight: 1 }, remove: [], annotations: {} },
    { force: false, expectedVersion },
  );
  await expect(write).rejects.toMatchObject({ code: 'EG_READ_ONLY', message: expect.stringContaining(path('a.yaml')) });
});

test('writes change their document only; new resources get a file, deletions take theirs', async () => {
  const others = [
    '---\n# only a comment\n',
    rule('r'),
    '--- # odd  spacing\n',
    cluster('b').replace('routingGroup: adhoc', 'routingGroup:   "x"'),
  ];
  await write('a.yaml', `${cluster('a')}${others.join('')}`);
  const source = await started();
  const version = (name: string): string => source.get(key(name))!.metadata.resourceVersion;
  await source.apply(
    key('a'),
    { set: { active: false }, remove: [], annotations: {} },
    { force: false, expectedVersion: version('a') },
  );
  expect(await read('a.yaml')).toBe(`${cluster('a')}  active: false\n${others.join('')}`);
  await annotate(source, key('b'), { 'x/y': 'z' }, version('b'));
  expect(await read('a.yaml')).toContain(`${cluster('a')}  active: false\n${others.slice(0, 2).join('')}`);
  expect(source.get(key('b'))?.metadata).toMatchObject({ annotations: { 'x/y': 'z' }, generation: 1 });
  expect(await source.delete(key('a'), null)).toBe(true);
  expect(names(source)).toEqual(['b']);
  expect((await read('a.yaml')).startsWith(others.slice(0, 2).join(''))).toBe(true);
  await source.create({ ...key('n'), spec: { proxyTo: 'http://n:1', routingGroup: 'g' } });
  expect(await readdir(directory)).toEqual(['a.yaml', 'enginecluster-n.yaml']);
  await expect(source.create({ ...key('n'), spec: {} })).rejects.toMatchObject({ code: 'EG_CONFLICT' });
  expect(await source.delete(key('n'), null)).toBe(true);
  expect(await source.delete(key('n'), null)).toBe(false);
  expect(await readdir(directory)).toEqual(['a.yaml']);
});

test('a file that is edited during a write: neither change is lost', async () => {
  await write('a.yaml', `${cluster('a')}---\n${cluster('b')}`);
  const source = await started();
  const expectedVersion = source.get(key('a'))!.metadata.resourceVersion;
  await write('a.yaml', `${cluster('a', 'http://edited:1')}---\n${cluster('b')}`);
  const change = { set: { weight: 7 }, remove: [], annotations: {} };
  await expect(source.apply(key('a'), change, { force: false, expectedVersion })).rejects.toMatchObject({
    name: 'VersionConflict',
  });
  await until(() => expect(source.get(key('a'))?.spec.proxyTo).toBe('http://edited:1'));
  await write('a.yaml', `${cluster('a', 'http://edited:1')}---\n${cluster('b', 'http://edited:2')}`);
  await source.apply(key('a'), change, {
    force: false,
    expectedVersion: source.get(key('a'))!.metadata.resourceVersion,
  });
  await until(() => expect(source.get(key('b'))?.spec.proxyTo).toBe('http://edited:2'));
  expect(source.get(key('a'))?.spec).toMatchObject({ proxyTo: 'http://edited:1', weight: 7 });
});

test('two replicas that write to one directory at the same time lose nothing', async () => {
  await write('a.yaml', Array.from({ length: 6 }, (_, index) => cluster(`c${index}`)).join('---\n'));
  const replicas = [await started(), await started()];
  const attempt = async (source: DirectorySource, name: string, field: string): Promise<void> => {
    for (;;) {
      const held = source.get(key(name))!;
      try {
        await source.apply(
          key(name),
          { set: { [field]: 5 }, remove: [], annotations: {} },
          { force: false, expectedVersion: held.metadata.resourceVersion },
        );
        return;
      } catch (error) {
        if ((error as Error).name !== 'VersionConflict') throw error;
        await pause(30);
      }
    }
  };
  await Promise.all(
    Array.from({ length: 6 }, (_, index) => [
      attempt(replicas[0]!, `c${index}`, 'left'),
      attempt(replicas[1]!, `c${index}`, 'right'),
    ]).flat(),
  );
  for (const source of replicas) {
    await until(() => {
      for (const resource of source.list('EngineCluster')) expect(resource.spec).toMatchObject({ left: 5, right: 5 });
    });
  }
});

test('a directory that goes away keeps what was read, refuses writes, and is found again', async () => {
  await write('a.yaml', cluster('a'));
  const source = await started();
  await rename(directory, `${directory}-away`);
  await until(() => expect(source.state().available).toBe(false));
  expect(names(source)).toEqual(['a']);
  await expect(source.create({ ...key('n'), spec: {} })).rejects.toMatchObject({ code: 'EG_SOURCE_UNAVAILABLE' });
  await rename(`${directory}-away`, directory);
  await until(() => expect(source.state().available).toBe(true));
  expect(names(source)).toEqual(['a']);
});

test('after a restart versions go on, generation and creation come from the database', async () => {
  await write('a.yaml', cluster('a'));
  const first = await started();
  const before = first.get(key('a'))!;
  const stored = {
    ...before.metadata,
    ...key('a'),
    registryName: 'a',
    spec: before.spec,
    labels: {},
    annotations: {},
    status: { active: true },
    source: 'directory',
    row: null,
    generation: 7,
    creationTimestamp: '2020-01-01T00:00:00.000Z',
  } as const;
  const second = new DirectorySource({
    kinds: resourceKinds,
    directory,
    namespace: 'default',
    clock: systemClock,
    logger: pino({ enabled: false }),
  });
  sources.push(second);
  second.restore([stored]);
  await second.start(5_000);
  expect(second.get(key('a'))).toMatchObject({
    metadata: {
      uid: before.metadata.uid,
      resourceVersion: before.metadata.resourceVersion,
      generation: 7,
      creationTimestamp: '2020-01-01T00:00:00.000Z',
    },
    status: { active: true },
  });
});
