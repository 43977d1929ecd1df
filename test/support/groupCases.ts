import type { FileSelector } from '../../src/model/groupsFile/groupFields.ts';
import type { GroupsFile } from '../../src/model/groupsFile/storedGroups.ts';
import type { GroupCriteria } from '../../src/rules/groupSelection.ts';

/** A small generator of random numbers with a seed (mulberry32), so that a failure is found again. */
export function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const users = ['ann', 'bob', 'Bob', 'etl_1', 'etl_22', 'svc-x', 'zoë'];
const sources = ['airflow', 'dbt-1', 'superset', 'cli'];
const tags = ['hi', 'lo', 'nightly'];
const groups = ['analysts', 'engineers', 'admins'];
const expressions = [
  ...['.*', '(.*)', '.+', 'ann', 'bob|ann', '(?i)bob', 'etl_\\d+', 'etl_(?<NUMBER>\\d+)', '[a-z]+', '(?:ann|etl_1)'],
  ...['svc-(?<SERVICE>.*)', '\\p{L}+', 'a.*|b.*', '[^b].*', '[^_]*', '(?<FIRST>[ae]).*(?<LAST>.)', 'x?'],
];
const sourceExpressions = ['.*', 'airflow', '(?<TOOL>[a-z]+)-?.*', 'dbt.*|cli', '(?<TOOL>dbt)?.*', 'superset|cli'];
const durations = ['30s', '1m', '5m', '1h'];
const sizes = ['100MB', '1GB', '1.5GB', '1TB'];
const paths = [
  'global',
  'adhoc.${USER}',
  'etl.n-${NUMBER}',
  'bi.${TOOL}.${USER}',
  'x-${SERVICE}',
  'by.${SOURCE}',
  'z.${FIRST}${LAST}',
];

/** A random file whose selectors all compile, though not all of them are reached. */
export function randomFile(random: () => number): GroupsFile {
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const sometimes = <T>(share: number, value: () => T): T | undefined => (random() < share ? value() : undefined);
  const range = (texts: readonly string[]) => ({
    ...defined({ min: sometimes(0.6, () => pick(texts)), max: sometimes(0.6, () => pick(texts)) }),
  });
  const selector = (): FileSelector => {
    const user = sometimes(0.6, () => pick(expressions));
    const source = sometimes(0.4, () => pick(sourceExpressions));
    const group = pick(
      paths.filter((path) =>
        [...path.matchAll(/\$\{(\w+)\}/g)].every(
          ([, name]) => /USER|SOURCE/.test(name ?? '') || `${user}${source}`.includes(`<${name}>`),
        ),
      ),
    );
    return {
      ...defined({
        user,
        source,
        userGroup: sometimes(0.2, () => pick(['analysts', '.*', '[ae].*', 'admins|engineers'])),
        originalUser: sometimes(0.1, () => pick(['ann|bob', '.*'])),
        authenticatedUser: sometimes(0.1, () => pick(['svc-.*', '.*'])),
        queryType: sometimes(0.3, () => pick(['SELECT', 'insert', 'DATA_DEFINITION'])),
        clientTags: sometimes(0.3, () => [...new Set([pick(tags), pick(tags)])]),
        selectorResourceEstimate: sometimes(0.2, () =>
          defined({
            executionTime: sometimes(0.5, () => range(durations)),
            peakMemory: sometimes(0.5, () => range(sizes)),
          }),
        ),
      }),
      group,
    };
  };
  const nested = (parts: readonly string[]): object => {
    const [name, ...below] = parts;
    const limits = { name, hardConcurrencyLimit: 10, maxQueued: 10 };
    return below.length === 0 ? limits : { ...limits, subGroups: [nested(below)] };
  };
  return {
    rootGroups: paths.map((path) => nested(path.split('.'))) as unknown as GroupsFile['rootGroups'],
    selectors: Array.from({ length: 1 + Math.floor(random() * 8) }, selector),
  };
}

/** What an engine may know of a query. */
export function randomCriteria(random: () => number): GroupCriteria {
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)] as T;
  const some = (values: readonly string[]) => values.filter(() => random() < 0.4);
  const user = pick(users);
  const estimate = (values: readonly string[]) => (random() < 0.5 ? pick(values) : null);
  return {
    user,
    originalUser: random() < 0.8 ? user : pick(users),
    authenticatedUser: random() < 0.8 ? user : pick(users),
    groups: some(groups),
    source: random() < 0.8 ? pick(sources) : null,
    clientTags: some(tags),
    queryType: pick(['SELECT', 'INSERT', 'DATA_DEFINITION', 'EXPLAIN']),
    resourceEstimates: { executionTime: estimate(durations), cpuTime: null, peakMemory: estimate(sizes) },
  };
}

function defined<T extends object>(fields: T): { [field in keyof T]?: NonNullable<T[field]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as ReturnType<
    typeof defined<T>
  >;
}
