import { execFile } from 'node:child_process';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { parseConfig } from '../../src/config/loadConfig.ts';
import { retiredKeys } from '../../src/config/reader.ts';
import { findJava } from '../engine/distribution.ts';
import { requireComponent } from '../support/components.ts';
import { installReference, missingReferenceTools, RELEASE, RELEASE_WITH_RESOURCE_GROUPS } from './referenceGateway.ts';

const missing = await missingReferenceTools();
const canRun = requireComponent(missing.join(', '), missing.length === 0, 'the suite reads the released Trino Gateway');

const PACKAGE = 'io.trino.gateway.ha.config';
const ROOT = 'HaGatewayConfiguration';

/** A class as `javap` prints it: the types of its properties by name; of an enumeration, its words. */
interface ConfigurationClass {
  readonly properties: ReadonlyMap<string, string>;
  readonly words: readonly string[];
}

/** Jackson's name of a property, of its setter: all capital letters at the start become small. */
const propertyOf = (setter: string): string => setter.replace(/^[A-Z]+/, (capitals) => capitals.toLowerCase());

/** The classes of a release's configuration, from its jar: each run of `javap` reads what the ones before name. */
async function classesOf(release: number): Promise<ReadonlyMap<string, ConfigurationClass>> {
  const jar = await installReference(release);
  const java = await findJava();
  const javap = java?.includes('/') ? join(dirname(java), 'javap') : 'javap';
  const classes = new Map<string, ConfigurationClass>();
  for (let names = [ROOT]; names.length > 0; ) {
    const args = ['-p', '-cp', jar, ...names.map((name) => `${PACKAGE}.${name}`)];
    const { stdout } = await promisify(execFile)(javap, args, { maxBuffer: 1 << 26 });
    const named = new Set<string>();
    for (const text of stdout.split(/^Compiled from /m).slice(1)) {
      const name = new RegExp(`class ${PACKAGE}\\.(\\w+)`).exec(text)?.[1] ?? '';
      const isRecord = text.includes('extends java.lang.Record');
      const members = isRecord
        ? [...text.matchAll(/private final (\S+) (\w+);/g)].map(([, type = '', field = '']) => [field, type] as const)
        : [...text.matchAll(/public void set(\w+)\((.+)\);/g)].map(
            ([, setter = '', type = '']) => [propertyOf(setter), type] as const,
          );
      const words = text.matchAll(new RegExp(`public static final ${PACKAGE}\\.${name} (\\w+);`, 'g'));
      classes.set(name, { properties: new Map(members), words: [...words].map(([, word = '']) => word) });
      for (const [, type] of members) {
        for (const [, other = ''] of type.matchAll(new RegExp(`${PACKAGE}\\.(\\w+)`, 'g'))) named.add(other);
      }
    }
    names = [...named].filter((name) => !classes.has(name));
  }
  return classes;
}

/** Paths of all keys below a class; `*` for the name of an entry. */
function keysOf(classes: ReadonlyMap<string, ConfigurationClass>, name = ROOT): readonly (readonly string[])[] {
  return [...(classes.get(name)?.properties ?? [])].flatMap(([property, type]) => {
    const inner = new RegExp(`${PACKAGE}\\.(\\w+)`).exec(type)?.[1];
    const below = inner === undefined ? [] : keysOf(classes, inner);
    const prefix = type.startsWith('java.util.Map') ? [property, '*'] : [property];
    return [[property], ...below.map((path) => [...prefix, ...path])];
  });
}

/** What is said of a configuration that has a key. */
function messagesAbout(path: readonly string[], value: unknown): readonly string[] {
  const tree = path.reduceRight<unknown>((inner, key) => ({ [key === '*' ? 'x' : key]: inner }), value);
  const result = parseConfig(stringify(tree), {});
  return 'problems' in result ? result.problems.map(({ message }) => message) : [];
}

const isUnknown = (message: string) => /^is not known|^is not a key/.test(message);

describe.skipIf(!canRun).each([RELEASE, RELEASE_WITH_RESOURCE_GROUPS])('the configuration of release %i', (release) => {
  let classes: ReadonlyMap<string, ConfigurationClass>;
  let keys: readonly (readonly string[])[];
  beforeAll(async () => {
    classes = await classesOf(release);
    keys = keysOf(classes);
  });

  test('every key that its classes bind is known', () => {
    expect(keys.length).toBeGreaterThan(80);
    expect(keys.filter((path) => messagesAbout(path, [[]]).some(isUnknown))).toEqual([]);
  });

  test('every word that its classes bind is known', () => {
    const unknown = (path: readonly string[], words: readonly string[] = []) =>
      words.filter((word) => messagesAbout(path, word).some((message) => message.startsWith('must be one of')));
    const rules = classes.get('RulesType')?.words;
    const monitors = classes.get('ClusterStatsMonitorType')?.words;
    expect([rules?.length, monitors?.length]).toEqual([2, 6]);
    expect(unknown(['routingRules', 'rulesType'], rules)).toEqual([]);
    expect(unknown(['clusterStatsConfiguration', 'monitorType'], monitors)).toEqual([]);
  });

  test('what is refused here as a retired key is refused there as well', () => {
    const bound = new Set(keys.map((path) => path.join('.')));
    expect([...retiredKeys.keys()].filter((key) => bound.has(key))).toEqual([]);
    expect([...retiredKeys.keys()].every((key) => messagesAbout(key.split('.'), 1).some(isUnknown))).toBe(true);
  });
});
