import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { ConfigChange } from '../../../src/config/change.ts';
import { loadConfig } from '../../../src/config/loadConfig.ts';
import { createLogging } from '../../../src/config/logger.ts';
import { type ConfigWatch, watchConfig } from '../../../src/config/watchConfig.ts';

let folder: string;
let lines: { level: string; msg: string; keys?: string[]; key?: string; line?: number; file?: string }[];
let changes: ConfigChange[];
let opened: ConfigWatch | null;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'config-watch-'));
  lines = [];
  changes = [];
  opened = null;
});

afterEach(() => {
  opened?.close();
  rmSync(folder, { recursive: true });
});

async function start(path: string | readonly string[], pollInterval = 50): Promise<ConfigWatch> {
  const paths = [path].flat();
  const loaded = await loadConfig(paths, {});
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems));
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  opened = watchConfig({
    paths,
    environment: {},
    running: loaded.config,
    logger: createLogging({ level: 'info', destination }).logger,
    onChange: (change) => changes.push(change),
    pollInterval,
    settleTime: 20,
  });
  return opened;
}

const until = (check: () => void) => vi.waitFor(check, { timeout: 30_000, interval: 10 });
const said = (text: string) => lines.filter((line) => line.msg.includes(text));

describe('a plain file', () => {
  let path: string;
  const write = (text: string) => writeFileSync(path, text);

  beforeEach(() => {
    path = join(folder, 'gateway.yaml');
    write('routing: {defaultRoutingGroup: a}\n');
  });

  test('live keys are taken', async () => {
    const watch = await start(path);
    write('routing: {defaultRoutingGroup: b, asyncTimeout: 1s}\nlogging: {level: debug}\n');
    await until(() => expect(changes).toHaveLength(1));
    expect(changes[0]?.live).toEqual(['routing.defaultRoutingGroup', 'routing.asyncTimeout', 'logging.level']);
    expect(changes[0]?.restart).toEqual([]);
    expect(changes[0]?.config).toBe(watch.current);
    expect(watch.current.routing).toMatchObject({ defaultRoutingGroup: 'b', asyncTimeout: 1000 });
    expect(Object.isFrozen(watch.current.routing)).toBe(true);
  });

  test('other keys stay as they were and are named, once', async () => {
    const watch = await start(path);
    const mixed = 'serverConfig: {http-server.http.port: 9000}\nprotocol: {productName: Trino}\n';
    write(`${mixed}routing: {defaultRoutingGroup: b}\n`);
    await until(() => expect(changes).toHaveLength(1));
    const keys = ['protocol.productName', 'serverConfig.http-server.http.port'];
    expect(watch.restartNeeded).toEqual(keys);
    expect(watch.current.serverConfig['http-server.http.port']).toBe(8080);
    expect(watch.current.protocol.productName).toBe('Engine');
    expect(watch.current.monitor.runningQueriesMetricName).toMatch(/^engine_/);
    write(`${mixed}routing: {defaultRoutingGroup: c}\n`);
    await until(() => expect(changes).toHaveLength(2));
    expect(said('needs a restart').map((line) => line.keys)).toEqual([keys]);
    write('routing: {defaultRoutingGroup: c}\n');
    await until(() => expect(watch.restartNeeded).toEqual([]));
  });

  test('a file with mistakes is logged and changes nothing, a fixed one is taken', async () => {
    const watch = await start(path);
    const before = watch.current;
    write('routing:\n  defaultRoutingGrup: b\n  asyncTimeout: 5\n');
    await until(() => expect(said('refused')).toHaveLength(2));
    expect(said('refused')[0]).toMatchObject({ level: 'error', line: 2, key: 'routing.defaultRoutingGrup' });
    expect(watch.current).toBe(before);
    write('routing: {defaultRoutingGroup: b}\n');
    await until(() => expect(watch.current.routing.defaultRoutingGroup).toBe('b'));
    expect(said('refused')).toHaveLength(2);
  });

  test('an editor that renames is followed, and so is the file after it was unavailable', async () => {
    const watch = await start(path);
    rmSync(path);
    await until(() => expect(said('there is no such file')).toHaveLength(1));
    expect(watch.current.routing.defaultRoutingGroup).toBe('a');
    writeFileSync(join(folder, 'new'), 'routing: {defaultRoutingGroup: b}\n');
    renameSync(join(folder, 'new'), path);
    await until(() => expect(watch.current.routing.defaultRoutingGroup).toBe('b'));
  });

  test("the folder's events suffice", async () => {
    const watch = await start(path, 3_600_000);
    write('routing: {defaultRoutingGroup: b}\n');
    await until(() => expect(watch.current.routing.defaultRoutingGroup).toBe('b'));
  });

  test('a change between the load and the watch is seen', async () => {
    const loaded = await loadConfig([path], {});
    write('routing: {defaultRoutingGroup: b}\n');
    if ('problems' in loaded) throw new Error('not loaded');
    const { logger } = createLogging({ level: 'fatal', destination: { write: () => undefined } });
    const seen = vi.fn();
    opened = watchConfig({
      paths: [path],
      environment: {},
      running: loaded.config,
      logger,
      onChange: seen,
      settleTime: 5,
    });
    await until(() => expect(seen).toHaveBeenCalledOnce());
  });

  test('nothing is called after the end', async () => {
    const watch = await start(path);
    write('routing: {defaultRoutingGroup: b}\n');
    watch.close();
    const second = await start(path);
    write('routing: {defaultRoutingGroup: c}\n');
    await until(() => expect(second.current.routing.defaultRoutingGroup).toBe('c'));
    expect(watch.current.routing.defaultRoutingGroup).toBe('a');
  });
});

test('the symlink swap of a mounted ConfigMap is followed', async () => {
  const version = (name: string, group: string) => {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'gateway.yaml'), `routing: {defaultRoutingGroup: ${group}}\n`);
  };
  version('..2026_01', 'a');
  symlinkSync('..2026_01', join(folder, '..data'));
  symlinkSync('..data/gateway.yaml', join(folder, 'gateway.yaml'));
  const watch = await start(join(folder, 'gateway.yaml'), 3_600_000);
  version('..2026_02', 'b');
  symlinkSync('..2026_02', join(folder, '..data_tmp'));
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
  rmSync(join(folder, '..2026_01'), { recursive: true });
  await until(() => expect(watch.current.routing.defaultRoutingGroup).toBe('b'));
});

test('of several files, a change of any is taken, and a mistake names its file', async () => {
  const [below, above] = [join(folder, 'gateway.yaml'), join(folder, 'more', 'tls.yaml')];
  mkdirSync(join(folder, 'more'));
  writeFileSync(below, 'routing: {defaultRoutingGroup: a, asyncTimeout: 1s}\n');
  writeFileSync(above, 'routing: {defaultRoutingGroup: b}\n');
  const watch = await start([below, above], 3_600_000);
  writeFileSync(above, 'routing: {defaultRoutingGroup: c}\n');
  await until(() => expect(watch.current.routing).toMatchObject({ defaultRoutingGroup: 'c', asyncTimeout: 1_000 }));
  writeFileSync(below, 'routing: {defaultRoutingGroup: a, asyncTimeout: 2s}\n');
  await until(() => expect(watch.current.routing).toMatchObject({ defaultRoutingGroup: 'c', asyncTimeout: 2_000 }));
  writeFileSync(above, '\nrouting: {asyncTimeout: late}\n');
  await until(() => expect(said('refused')[0]).toMatchObject({ file: above, line: 2, key: 'routing.asyncTimeout' }));
  expect(watch.current.routing.defaultRoutingGroup).toBe('c');
});
