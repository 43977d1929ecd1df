import type { ClusterHealth } from '../../model/registryCluster.ts';
import { takesNewQueries } from '../../routing/routingTable.ts';
import type { FaultCounts, FaultMinute } from '../../store/queryRates.ts';
import { type OverviewProblem, type ProblemList, problemKinds } from '../answers/overview.ts';
import type { ComponentState } from '../probes.ts';
import { iso, isoOrNull } from '../schemas.ts';

/** Problems of one kind that are listed; the number of all of them is in addition to the list. */
const MAX_LISTED = 20;
/** Most objects of one list of a problem; the number of all is next to it. */
const MAX_AFFECTED = 20;

/** The problems in the form of the response: critical ones first, and at most so many of a kind. */
export function problemList(all: readonly OverviewProblem[], asOf: number): ProblemList {
  const rank = ({ severity, kind }: OverviewProblem) =>
    (severity === 'critical' ? 0 : problemKinds.length) + problemKinds.indexOf(kind);
  const sorted = [...all].sort((a, b) => rank(a) - rank(b) || (a.object.name < b.object.name ? -1 : 1));
  const byKind = Map.groupBy(sorted, ({ kind }) => kind);
  const listed = new Set([...byKind.values()].flatMap((own) => own.slice(0, MAX_LISTED)));
  return {
    asOf: iso(asOf),
    verdict: sorted[0]?.severity ?? 'ok',
    total: all.length,
    counts: [...byKind].map(([kind, { length }]) => ({ kind, total: length })),
    problems: sorted.filter((each) => listed.has(each)),
  };
}

/** Makes a problem. @param since milliseconds since 1970; null: not known */
function problem(
  kind: OverviewProblem['kind'],
  severity: OverviewProblem['severity'],
  object: readonly [kind: OverviewProblem['object']['kind'], name: string],
  reason: string,
  since: number | null,
  [groups, rules]: readonly [groups: Iterable<string>, rules: Iterable<string>] = [[], []],
): OverviewProblem {
  const [allGroups, allRules] = [[...new Set(groups)].sort(), [...new Set(rules)].sort()];
  return {
    ...{ kind, severity, object: { kind: object[0], name: object[1] }, reason, since: isoOrNull(since) },
    ...{ groups: allGroups.slice(0, MAX_AFFECTED), groupCount: allGroups.length },
    ...{ rules: allRules.slice(0, MAX_AFFECTED), ruleCount: allRules.length },
  };
}

export interface ClusterFact {
  readonly name: string;
  /** Null: nothing is routed, as its resource was never valid; `reason` states why. */
  readonly group: string | null;
  readonly active: boolean;
  readonly status: ClusterHealth;
  readonly reason: string;
  /** True if a check has reported on it since the process started. */
  readonly isChecked: boolean;
  /** Since when it takes no queries, or is not accepted; null: not known. Milliseconds since 1970. */
  readonly since: number | null;
}

export interface GroupFact {
  readonly name: string;
  /** Groups that serve in its place, the default group last; none if queries wait for its own clusters. */
  readonly substitutes: readonly string[];
  readonly waits: boolean;
  /** An unhealthy cluster is tried rather than none. */
  readonly bestEffort: boolean;
  readonly isDefault: boolean;
}

/** Clusters that are down, routing groups without a cluster that takes queries, and resources that are not accepted. */
export function clusterProblems(
  clusters: readonly ClusterFact[],
  groups: readonly GroupFact[],
  targets: RuleTargetsIndex,
): OverviewProblem[] {
  const members = Map.groupBy(clusters, ({ group }) => group);
  const serves = (name: string): boolean => (members.get(name) ?? []).some(takesQueries);
  const unavailable = groups.flatMap((group) => {
    const own = members.get(group.name) ?? [];
    return own.length === 0 || own.some(takesQueries) ? [] : groupProblem(group, own, targets, serves);
  });
  const down = clusters.flatMap(({ name, group, active, status, reason, since }) => {
    const object = ['cluster', name] as const;
    const ofCluster = targets.ofCluster(name);
    if (group === null) return [problem('ClusterRejected', 'warning', object, reason, since, [[], ofCluster])];
    if (!active || status !== 'UNHEALTHY') return [];
    const rules = [...targets.ofGroup(group), ...ofCluster];
    return [problem('ClusterUnhealthy', 'warning', object, reason, since, [[group], rules])];
  });
  return [...unavailable, ...down];
}

function takesQueries({ active, status, isChecked }: ClusterFact): boolean {
  // Before its first check nothing is known of a cluster that could be a problem.
  return takesNewQueries({ active, health: { status } }) || (active && !isChecked);
}

const MAX_NAMED = 3;

function groupProblem(
  { name, substitutes, waits, bestEffort, isDefault }: GroupFact,
  members: readonly ClusterFact[],
  targets: RuleTargetsIndex,
  serves: (group: string) => boolean,
): OverviewProblem[] {
  const rules = [...targets.ofGroup(name), ...members.flatMap((cluster) => [...targets.ofCluster(cluster.name)])];
  const isRetired = members.every(({ active }) => !active);
  if (isRetired && rules.length === 0 && !isDefault) return [];
  const substitute = substitutes.find(serves);
  const isRefused = substitute === undefined && !waits && !(bestEffort && !isRetired);
  const times = members.map(({ since }) => since ?? Number.POSITIVE_INFINITY);
  const since = Math.max(...times);
  const texts = members
    .slice(0, MAX_NAMED)
    .map((member) => `${member.name} is ${member.active ? member.status : 'switched off'}`);
  const more = members.length > MAX_NAMED ? [`${members.length - MAX_NAMED} more`] : [];
  const ofQueries = isRefused ? 'are refused' : 'are tried at unhealthy clusters';
  const consequence =
    substitute !== undefined ? `go to ${substitute}, unless a rule says otherwise` : waits ? 'wait' : ofQueries;
  const reason = `${[...texts, ...more].join(', ')}; its queries ${consequence}`;
  const severity = isRefused ? 'critical' : 'warning';
  const at = since === Number.POSITIVE_INFINITY ? null : since;
  return [problem('GroupUnavailable', severity, ['routingGroup', name], reason, at, [[name], rules])];
}

export interface ComponentFact extends Omit<ComponentState, 'ok'> {
  /** Since when, milliseconds since 1970; null: it was when the process first looked. */
  readonly since: number | null;
}

export interface NoLeaderFact {
  /** Milliseconds since 1970; null: not known. */
  readonly since: number | null;
}

/** Problems that components are; of all others the way of recognising callers is no incident. */
const componentKinds: Readonly<Record<string, readonly [OverviewProblem['kind'], OverviewProblem['severity']]>> = {
  database: ['DatabaseUnavailable', 'critical'],
  'resource source': ['SourceUnavailable', 'critical'],
  'held deletions': ['DeletionsHeld', 'warning'],
  'history buffer': ['HistoryWaiting', 'warning'],
  'external rules service': ['ExternalRulesUnavailable', 'warning'],
};

/** Problems of the responding replica, and a missing leader. */
export function gatewayProblems(
  components: readonly ComponentFact[],
  noLeader: NoLeaderFact | null,
): OverviewProblem[] {
  const problems = components.flatMap(({ name, message, hasMistakes = false, since }) => {
    const isMistaken = name === 'resource source' && hasMistakes;
    const kind = isMistaken ? (['SourceMistakes', 'warning'] as const) : componentKinds[name];
    return kind === undefined ? [] : [problem(...kind, ['gateway', name], message, since)];
  });
  if (noLeader === null) return problems;
  const reason = 'no replica leads: statuses of resources are not written, and what changed elsewhere is not projected';
  return [...problems, problem('NoLeader', 'warning', ['gateway', 'leader'], reason, noLeader.since)];
}

/** Queries that waited for a routing group at a time, on all replicas. */
export interface QueueSample {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly waiting: number;
}

/** A queue grows when so many more wait than at its lowest within the samples, and so many times as many. */
const GROWN_BY = 10;
const GROWN_TIMES = 1.2;
/** A queue that has come down to this part of its highest does not grow any more. */
const STILL = 0.9;

/**
 * Queues that grow: more queries wait than at the lowest of the samples, and the queue has not come down since.
 * @param queues samples of each routing group, oldest first
 */
export function queueProblems(
  queues: ReadonlyMap<string, readonly QueueSample[]>,
  targets: RuleTargetsIndex,
): OverviewProblem[] {
  return [...queues].flatMap(([group, samples]) => {
    const last = samples.at(-1);
    if (last === undefined) return [];
    const lowest = Math.min(...samples.map(({ waiting }) => waiting));
    const { at: since } = samples.findLast(({ waiting }) => waiting === lowest) ?? last;
    const highest = Math.max(...samples.filter(({ at }) => at >= since).map(({ waiting }) => waiting));
    const hasGrown = last.waiting >= lowest + GROWN_BY && last.waiting >= lowest * GROWN_TIMES;
    if (!hasGrown || last.waiting < highest * STILL) return [];
    const reason = `${last.waiting} queries wait, ${last.waiting - lowest} more than then`;
    return [problem('QueueGrowing', 'warning', ['queue', group], reason, since, [[group], targets.ofGroup(group)])];
  });
}

/** Length of the recent time that faults are counted in, milliseconds. */
export const RECENT_MS = 5 * 60_000;
export const BEFORE_MS = 30 * 60_000;
/** Share of queries with faults from which it is a problem, where it is also this many times the share before. */
const FAULTY_SHARE = 0.05;
const RISE = 2;
/** Fewer faults than these are not significant. */
const MIN_FAULTS = 5;
const CRITICAL_SHARE = 0.5;

/** Clusters and groups whose error rate is up, most faults first. */
export function raisedFaults(counts: readonly FaultCounts[]): FaultCounts[] {
  return counts
    .filter(({ recent, before }) => {
      if (recent.faults < MIN_FAULTS || share(recent) < FAULTY_SHARE) return false;
      return before.ended === 0 || share(recent) >= RISE * share(before);
    })
    .sort((a, b) => b.recent.faults - a.recent.faults);
}

/** Error rates that are up, of clusters, and of routing groups whose queries the gateway rejects. @param minutes of these counts */
export function faultProblems(
  raised: readonly FaultCounts[],
  minutes: readonly FaultMinute[],
  targets: RuleTargetsIndex,
): OverviewProblem[] {
  return raised.map((counts) => {
    const { cluster, group, groups, recent, before } = counts;
    const own = minutesOf(counts, minutes);
    const error = mostFrequentError(own);
    const what = cluster === null ? 'were refused' : 'failed or were refused';
    const earlier = before.ended === 0 ? '' : `; ${percent(share(before))} in the half hour before`;
    const often = error === null ? '' : `, most often with ${error}`;
    const reason = `${recent.faults} of ${recent.ended} queries ${what} in the last 5 minutes (${percent(share(recent))}${earlier})${often}`;
    const severity = share(recent) >= CRITICAL_SHARE ? 'critical' : 'warning';
    const object = cluster === null ? (['routingGroup', group ?? ''] as const) : (['cluster', cluster] as const);
    const rules = groups.flatMap((name) => targets.ofGroup(name));
    return problem('ErrorRate', severity, object, reason, faultySince(own), [groups, rules]);
  });
}

/** Minutes of a cluster or a routing group. What a cluster took is no fault of its routing group. */
function minutesOf({ cluster, group }: FaultCounts, minutes: readonly FaultMinute[]): readonly FaultMinute[] {
  if (cluster !== null) return minutes.filter((minute) => minute.cluster === cluster);
  return minutes
    .filter((minute) => group === null || minute.group === group)
    .map((minute) => (minute.cluster === null && minute.group === group ? minute : { ...minute, faults: 0 }));
}

function share({ ended, faults }: { readonly ended: number; readonly faults: number }): number {
  return ended === 0 ? 0 : faults / ended;
}

function percent(value: number): string {
  return `${value > 0 && value < 0.1 ? (value * 100).toFixed(1) : Math.round(value * 100)} %`;
}

function mostFrequentError(minutes: readonly FaultMinute[]): string | null {
  const counts = new Map<string, number>();
  for (const { errorName, faults } of minutes) {
    if (errorName !== null && faults > 0) counts.set(errorName, (counts.get(errorName) ?? 0) + faults);
  }
  return [...counts].sort(([nameA, a], [nameB, b]) => b - a || (nameA < nameB ? -1 : 1))[0]?.[0] ?? null;
}

/** Start of the first minute of the run of faulty minutes that continues; minutes without queries do not end it. */
function faultySince(minutes: readonly FaultMinute[]): number | null {
  const sum = (rows: readonly FaultMinute[], field: 'ended' | 'faults') =>
    rows.reduce((all, row) => all + row[field], 0);
  let since: number | null = null;
  for (const [start, rows] of [...Map.groupBy(minutes, (minute) => minute.start)].sort(([a], [b]) => b - a)) {
    if (share({ ended: sum(rows, 'ended'), faults: sum(rows, 'faults') }) >= FAULTY_SHARE) since = start;
    else if (since !== null) break;
  }
  return since;
}

export interface RuleFact {
  readonly name: string;
  /** As `GET /api/rules` has it. */
  readonly status: string;
  readonly message: string;
  /** Reason that its target is missing, or null. */
  readonly unresolved: string | null;
  readonly groups: readonly string[];
  /** Cluster that it pins; null: none. */
  readonly cluster: string | null;
}

/** Since when a rule is as it is, milliseconds since 1970; null: not known. */
export type RuleSince = (rule: RuleFact, condition: 'Accepted' | 'ResolvedRefs') => number | null;

/** The rules file, where its last version did not load; null: it did, or it is missing. */
export interface RulesFileFact {
  readonly path: string;
  /** True if the last version that loaded decides; else none of its rules does. */
  readonly isKept: boolean;
  readonly reason: string;
}

/** Names of rules by the groups and clusters that they lead to. */
export class RuleTargetsIndex {
  readonly #groups: ReadonlyMap<string, readonly { readonly name: string }[]>;
  readonly #clusters: ReadonlyMap<string | null, readonly RuleFact[]>;

  /** @param rules that are asked */
  constructor(rules: readonly RuleFact[]) {
    const targets = rules.flatMap(({ name, groups }) => groups.map((group) => ({ name, group })));
    this.#groups = Map.groupBy(targets, ({ group }) => group);
    this.#clusters = Map.groupBy(rules, ({ cluster }) => cluster);
  }

  ofGroup(group: string): readonly string[] {
    return (this.#groups.get(group) ?? []).map(({ name }) => name);
  }

  ofCluster(cluster: string): readonly string[] {
    return (this.#clusters.get(cluster) ?? []).map(({ name }) => name);
  }
}

export function isAsked({ status }: RuleFact): boolean {
  return status === 'Programmed' || status === 'PreviousVersion';
}

/** Rules that are rejected, or that lead nowhere, and a rules file that did not load. */
export function ruleProblems(
  rules: readonly RuleFact[],
  file: RulesFileFact | null,
  since: RuleSince,
): OverviewProblem[] {
  const problems = rules.flatMap((rule) => {
    const { name, status, message, unresolved, groups } = rule;
    const [object, of] = [
      ['rule', name],
      [groups, [name]],
    ] as const;
    // Those of a file that did not load are one problem, of the file.
    if (status === 'NotAccepted' || status === 'PreviousVersion') {
      const reason = status === 'PreviousVersion' ? `${message}; the version before decides` : message;
      return [problem('RuleRejected', 'warning', object, reason, since(rule, 'Accepted'), of)];
    }
    if (unresolved === null || !isAsked(rule)) return [];
    return [problem('RuleUnresolved', 'warning', object, unresolved, since(rule, 'ResolvedRefs'), of)];
  });
  if (file === null) return problems;
  const consequence = file.isKept ? 'its last version that loaded decides' : 'none of its rules decides';
  const severity = file.isKept ? 'warning' : 'critical';
  const object = ['rulesFile', file.path] as const;
  return [problem('RulesFileRejected', severity, object, `${file.reason}; ${consequence}`, null), ...problems];
}
