import type { Program } from './program.ts';

type Spec = object;

/** Words of manifests of the baseline, `enginegateway.dev/v1`, and those of the resource API as it is now. */
const words: readonly (readonly [RegExp, string])[] = [
  [/\benginegateway\.dev\/v1\b/g, 'enginegateway.dev/v1beta1'],
  [/\bonUnavailable: reject\b/g, 'whenUnavailable: Reject'],
  [/\bqueue: \{maxQueued:/g, 'queue: {maxQueuedQueries:'],
];

/**
 * Converts manifests of the baseline to those that a program reads. Words stay on their lines, so that places in files
 * are compared too.
 */
export function manifestsFor({ isBaseline }: Program, text: string): string {
  return isBaseline ? text : words.reduce((before, [old, present]) => before.replaceAll(old, present), text);
}

/** Enums by field; values that no version had stay, so that mistakes stay mistakes. */
const enums: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  strategy: { weightedRandom: 'WeightedRandom', leastLoaded: 'LeastLoaded', affinity: 'Affinity' },
  fairBy: { user: 'User', source: 'Source' },
  per: { user: 'User', source: 'Source', all: 'All' },
  mode: { enforce: 'Enforce', observe: 'Observe' },
  type: { INFO_API: 'InfoAPI', METRICS: 'Metrics', JDBC: 'JDBC', JMX: 'JMX', UI_API: 'UIAPI', NOOP: 'None' },
  whenError: { deny: 'Reject', skip: 'Skip' },
  whenUnavailable: { fallback: 'Fallback', reject: 'Reject' },
  whenFull: { full: 'Fallback', unavailable: 'Wait' },
};
const names: Readonly<Record<string, string>> = {
  fallbackWhen: 'whenFull',
  onError: 'whenError',
  onUnavailable: 'whenUnavailable',
  maxRunning: 'maxRunningQueries',
  maxQueued: 'maxQueuedQueries',
  suspended: 'suspend',
};

/** Converts a spec of the baseline to that of the same meaning in a program's resources. */
export function specFor({ isBaseline }: Program, spec: Spec): Spec {
  return isBaseline ? spec : present(spec);
}

const queryLimits = new Set(['per', 'maxRunning', 'rate', 'mode']);

function present(spec: Spec): Spec {
  const { match, namespaces, strategy, affinity, ...others } = spec as Readonly<Record<string, unknown>>;
  const isLimit = Object.keys(spec).some((field) => queryLimits.has(field));
  const lists = Object.entries(match ?? {}).map(([field, values]) => [
    field === 'groups' ? 'userGroups' : field,
    (values as readonly string[]).map(matchOf),
  ]);
  return {
    ...(isLimit ? { match: lists.length === 0 ? { everyone: true } : Object.fromEntries(lists) } : {}),
    ...(namespaces === undefined ? {} : { namespaces: { selector: {} } }),
    ...(strategy === undefined && affinity === undefined ? {} : { strategy: strategyOf(strategy, affinity) }),
    ...renamed(others),
  };
}

/** @param strategy absent with an affinity: what the configuration states, which was allowed */
function strategyOf(strategy: unknown, affinity: unknown): object {
  const { strategy: type } = renamed({ strategy: strategy ?? 'affinity' }) as { readonly strategy: unknown };
  if (affinity === undefined) return { type };
  const by = String((affinity as { readonly by: unknown }).by);
  const [, name] = /^header:(.*)/.exec(by) ?? [];
  return { type, affinity: name === undefined ? { type: byEnum[by] ?? by } : { type: 'Header', name } };
}

const byEnum: Readonly<Record<string, string>> = { user: 'User', source: 'Source', session: 'Session' };

function matchOf(value: string): object {
  return value.startsWith('~') ? { type: 'RegularExpression', value: value.slice(1) } : { value };
}

function renamed(spec: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(
    Object.entries(spec).map(([old, value]) => {
      const name = names[old] ?? old;
      if (typeof value === 'string') return [name, enums[name]?.[value] ?? value];
      const isSpec = typeof value === 'object' && value !== null && !Array.isArray(value);
      return [name, isSpec ? renamed(value as Readonly<Record<string, unknown>>) : value];
    }),
  );
}
