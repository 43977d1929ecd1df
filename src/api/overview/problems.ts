import { routingRule } from '../../kinds/routingRule/kind.ts';
import type { Condition } from '../../model/resource.ts';
import { within } from '../../model/timeLimit.ts';
import type { InventoryRule, RuleInventory } from '../../operator/registry/ruleInventory.ts';
import { type ClusterEntry, takesNewQueries } from '../../routing/routingTable.ts';
import type { FaultCounts, FaultMinute } from '../../store/queryRates.ts';
import type { ComponentState, StoreContext } from '../apiContext.ts';
import { type OverviewProblem, type ProblemList, problemKinds } from '../responses/overview.ts';
import { iso, isoOrNull } from '../schemas.ts';

/** Interval of looks at what has no history, so that it is known since when it is so. */
const SWEEP_MS = 10_000;
/** A look that is older does not show when something began: the process was paused. */
const STALE_MS = 4 * SWEEP_MS;
/** Longest age of a list that callers get. */
const FRESH_MS = 2_000;
const PATIENCE_MS = 1_500;
/** Range of the queue lengths that are remembered, and how many of them. */
const SAMPLED_MS = 10 * 60_000;
const MAX_SAMPLES = 300;
/** Routing groups of which queue lengths are remembered. */
const MAX_QUEUES = 1_000;
/** Time without a leader that is no problem: another replica takes over within seconds. */
const LEADERLESS_MS = 10_000;
/** Longest age of counts of faults. */
const FAULTS_MS = 15_000;
/** Clusters with faults, counted by minute. */
const MAX_RAISED = 10;

/** Problems of one kind that are listed; the number of all of them is in addition to the list. */
const MAX_LISTED = 20;
/** Most objects of one list of a problem; the number of all is next to it. */
const MAX_AFFECTED = 20;

/** A component that fails, and since when in milliseconds since 1970; null: it did when the process first looked. */
type FailingComponent = ComponentState & { readonly since: number | null };

interface Sweep {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly components: readonly FailingComponent[];
  readonly noLeader: { readonly since: number | null } | null;
}

/** The problems for callers who may list rules, and for those who may not. */
interface Lists {
  readonly all: ProblemList;
  readonly withoutRules: ProblemList;
}

/** Clusters and groups whose error rate is up, and their minutes. */
type Faults = readonly [raised: readonly FaultCounts[], minutes: readonly FaultMinute[]];

/** A rule with the groups that it leads to. */
type TargetingRule = InventoryRule & { readonly groups: readonly string[] };

/** Finds what is wrong now (docs/rest-api.md#problems): clusters, rules and this replica as the process knows them, the rest from the database. */
export class ProblemWatch {
  readonly #api: StoreContext;
  #timer: NodeJS.Timeout | null = null;
  #sweep: Sweep | null = null;
  /** When a failing component was first noticed, by name; null: before the first look. */
  readonly #since = new Map<string, number | null>();
  #samples: ReadonlyMap<string, readonly QueueSample[]> = new Map();
  #counting: { readonly at: number; readonly done: Promise<void> } | null = null;
  #faults: Faults = [[], []];
  #latest: { readonly at: number; readonly lists: Promise<Lists> } | null = null;

  constructor(api: StoreContext) {
    this.#api = api;
  }

  start(): void {
    void this.#sweepNow();
    this.#timer = setInterval(() => void this.#sweepNow(), SWEEP_MS).unref();
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** All problems, at most some seconds old. @param mayListRules whether the caller may see rules */
  async problems(mayListRules: boolean): Promise<ProblemList> {
    const at = this.#api.clock.monotonic();
    if (this.#latest === null || at - this.#latest.at >= FRESH_MS) {
      const latest = { at, lists: this.#find() };
      this.#latest = latest;
      latest.lists.catch(() => {
        if (this.#latest === latest) this.#latest = null;
      });
    }
    const { all, withoutRules } = await this.#latest.lists;
    return mayListRules ? all : withoutRules;
  }

  async #find(): Promise<Lists> {
    const rules = this.#api.rules?.routingRules;
    const [inventory = null, survival = []] = await Promise.all([
      rules?.inventory(),
      within(this.#orNull(survivalProblems(this.#api)), PATIENCE_MS, null).then((list) => list ?? []),
      within(this.#countFaults(), PATIENCE_MS, null),
      within(this.#sweepNow(), PATIENCE_MS, null),
    ]);
    const { at, components, noLeader } = this.#sweep ?? { at: this.#api.clock.now(), components: [], noLeader: null };
    const named = rules?.groupsNamed();
    const targeting = (inventory?.rules ?? []).map((rule): TargetingRule => {
      const group = rule.routeTo?.routingGroup;
      return { ...rule, groups: group === undefined ? (named?.get(`${rule.origin}/${rule.name}`) ?? []) : [group] };
    });
    const own = (targets: RuleTargets): OverviewProblem[] => [
      ...clusterProblems(this.#api, targets),
      ...queueProblems(this.#samples, targets),
      ...faultProblems(...this.#faults, targets),
      ...survival,
      ...gatewayProblems(components, noLeader),
    ];
    const ofRules = [...fileProblems(inventory?.file ?? null), ...ruleProblems(this.#api, targeting)];
    return {
      all: problemList([...own(new RuleTargets(targeting.filter(isAsked))), ...ofRules], at),
      withoutRules: problemList(own(new RuleTargets([])), at),
    };
  }

  /** Never rejects: an unavailable database is itself a problem. */
  async #sweepNow(): Promise<void> {
    const { readiness, clock, store } = this.#api;
    const [components, leads, waiting] = await Promise.all([
      readiness.components(),
      within(this.#orNull(store.leader.state()), PATIENCE_MS, null),
      within(this.#orNull(store.queuedQueries.waitingByGroup()), PATIENCE_MS, null),
    ]);
    const at = clock.now();
    const before = this.#sweep !== null && at - this.#sweep.at < STALE_MS ? this.#sweep.at : null;
    const failing = components.filter(({ ok }) => !ok);
    const leaderless = leads !== null && !leads.isHeld ? leads : null;
    const names = [...failing.map(({ name }) => name), ...(leaderless === null ? [] : ['leader'])];
    for (const name of this.#since.keys()) if (!names.includes(name)) this.#since.delete(name);
    for (const name of names) if (!this.#since.has(name)) this.#since.set(name, before === null ? null : at);
    const sinceOf = (name: string) => this.#since.get(name) ?? null;
    const lostAt = leaderless?.expiredForMs == null ? sinceOf('leader') : at - leaderless.expiredForMs;
    const isSoon = lostAt !== null && at - lostAt < LEADERLESS_MS;
    if (waiting !== null) this.#samples = samples(this.#samples, waiting, at, before);
    this.#sweep = {
      at,
      components: failing.map((component) => ({ ...component, since: sinceOf(component.name) })),
      noLeader: leaderless === null || isSoon ? null : { since: lostAt },
    };
  }

  /** The result of a part of a look; null if it fails. */
  #orNull<T>(work: Promise<T>): Promise<T | null> {
    return work.catch((error: unknown) => {
      this.#api.logger.debug({ err: error }, 'failed to check for problems');
      return null;
    });
  }

  /** Counts faults if the last count is old. Never rejects. */
  #countFaults(): Promise<void> {
    const { clock, store } = this.#api;
    const rates = store.queryRates;
    const at = clock.monotonic();
    if (this.#counting !== null && at - this.#counting.at < FAULTS_MS) return this.#counting.done;
    const recentFrom = clock.now() - RECENT_MS;
    const from = recentFrom - BEFORE_MS;
    const count = async (): Promise<Faults> => {
      const raised = raisedFaults(await rates.faults({ from, recentFrom })).slice(0, MAX_RAISED);
      return [raised, await rates.faultMinutes(from, raised)];
    };
    const done = this.#orNull(count()).then((faults) => {
      this.#faults = faults ?? [[], []];
    });
    this.#counting = { at, done };
    return done;
  }
}

/** The problems in the form of the response: critical ones first, and at most so many of a kind. */
function problemList(all: readonly OverviewProblem[], asOf: number): ProblemList {
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

/** The samples with the present lengths of the queues. @param emptyAt when queues that are not sampled were empty; null: not known */
function samples(
  before: ReadonlyMap<string, readonly QueueSample[]>,
  waiting: ReadonlyMap<string, number>,
  at: number,
  emptyAt: number | null,
): ReadonlyMap<string, readonly QueueSample[]> {
  const next = new Map<string, readonly QueueSample[]>();
  for (const group of new Set([...waiting.keys(), ...before.keys()])) {
    if (next.size === MAX_QUEUES) break;
    const earlier = before.get(group) ?? (emptyAt === null ? [] : [{ at: emptyAt, waiting: 0 }]);
    const recent = earlier.filter((sample) => at - sample.at <= SAMPLED_MS);
    const all = [...recent, { at, waiting: waiting.get(group) ?? 0 }].slice(-MAX_SAMPLES);
    if (all.some((sample) => sample.waiting > 0)) next.set(group, all);
  }
  return next;
}

/** Milliseconds since 1970 at which a condition became False; null: it is not. */
function transition(conditions: readonly Condition[], type: string): number | null {
  const condition = conditions.find((each) => each.type === type);
  if (condition?.status !== 'False') return null;
  const time = Date.parse(condition.lastTransitionTime);
  return Number.isNaN(time) ? null : time;
}

/** Names of rules that are asked, by the groups and clusters that they lead to. */
class RuleTargets {
  readonly #groups: ReadonlyMap<string, readonly { readonly name: string }[]>;
  readonly #clusters: ReadonlyMap<string | undefined, readonly TargetingRule[]>;

  constructor(rules: readonly TargetingRule[]) {
    const targets = rules.flatMap(({ name, groups }) => groups.map((group) => ({ name, group })));
    this.#groups = Map.groupBy(targets, ({ group }) => group);
    this.#clusters = Map.groupBy(rules, ({ routeTo }) => routeTo?.cluster);
  }

  ofGroup(group: string): readonly string[] {
    return (this.#groups.get(group) ?? []).map(({ name }) => name);
  }

  ofCluster(cluster: string): readonly string[] {
    return (this.#clusters.get(cluster) ?? []).map(({ name }) => name);
  }
}

function isAsked({ status }: InventoryRule): boolean {
  return status === 'Programmed' || status === 'PreviousVersion';
}

/** Clusters that are down, routing groups without a cluster that takes queries, and resources that are not accepted. */
function clusterProblems(api: StoreContext, targets: RuleTargets): OverviewProblem[] {
  const { clusters, groups } = api.table.current;
  const inventory = api.inventory();
  const routed = inventory.flatMap(({ name, routable, resource }) =>
    routable === null ? [] : [[name, resource?.conditions ?? []] as const],
  );
  const conditions = new Map(routed);
  const sinceOf = ({ name, active, lastHealthyAt }: ClusterEntry): number | null => {
    const own = conditions.get(name) ?? [];
    return active ? (transition(own, 'Healthy') ?? lastHealthyAt ?? null) : transition(own, 'Active');
  };
  const rejected = inventory.flatMap(({ name, routable, resource }) => {
    const accepted = resource?.conditions.find(({ type }) => type === 'Accepted');
    if (routable !== null || accepted?.status !== 'False') return [];
    const affected = [[], targets.ofCluster(name)] as const;
    const since = transition([accepted], 'Accepted');
    return [problem('ClusterRejected', 'warning', ['cluster', name], accepted.message, since, affected)];
  });
  const down = [...clusters.values()].flatMap((cluster) => {
    const { name, routingGroup: group, active, health } = cluster;
    if (!active || health.status !== 'UNHEALTHY') return [];
    const affected = [[group], [...targets.ofGroup(group), ...targets.ofCluster(name)]] as const;
    return [problem('ClusterUnhealthy', 'warning', ['cluster', name], health.reason, sinceOf(cluster), affected)];
  });
  const unavailable = [...groups].flatMap(([name, members]) =>
    members.length === 0 || members.some(takesQueries) ? [] : groupProblem(api, name, members, targets, sinceOf),
  );
  return [...rejected, ...down, ...unavailable];
}

function takesQueries(cluster: ClusterEntry): boolean {
  const { active, health, rolloutOnly } = cluster;
  // Before its first check nothing is known of a cluster that could be a problem.
  return (
    takesNewQueries(cluster) ||
    (active && rolloutOnly !== true && health.checkedAt === null && health.status !== 'UNHEALTHY')
  );
}

const MAX_NAMED = 3;

function groupProblem(
  { table, defaultGroup }: StoreContext,
  name: string,
  members: readonly ClusterEntry[],
  targets: RuleTargets,
  sinceOf: (cluster: ClusterEntry) => number | null,
): OverviewProblem[] {
  const { groups, admission } = table.current;
  const { queue, fallbacks = [], bestEffort = false } = admission.groups.get(name) ?? {};
  const waits = queue?.whenUnavailable === 'wait';
  const rules = [...targets.ofGroup(name), ...members.flatMap((cluster) => [...targets.ofCluster(cluster.name)])];
  const isRetired = members.every(({ active, rolloutOnly }) => !active || rolloutOnly === true);
  if (isRetired && rules.length === 0 && name !== defaultGroup) return [];
  const substitutes = waits || name === defaultGroup ? fallbacks : [...fallbacks, defaultGroup];
  const substitute = substitutes.find((each) => groups.get(each)?.some(takesQueries));
  const isRejected = substitute === undefined && !waits && !(bestEffort && !isRetired);
  const since = Math.max(...members.map((member) => sinceOf(member) ?? Number.POSITIVE_INFINITY));
  const texts = members
    .slice(0, MAX_NAMED)
    .map(({ name, active, health, rolloutOnly }) =>
      active && rolloutOnly === true
        ? `${name} is rolloutOnly`
        : `${name} is ${active ? health.status : 'switched off'}`,
    );
  const more = members.length > MAX_NAMED ? [`${members.length - MAX_NAMED} more`] : [];
  const ofQueries = isRejected ? 'are refused' : 'are tried at unhealthy clusters';
  const consequence =
    substitute !== undefined ? `go to ${substitute}, unless a rule says otherwise` : waits ? 'wait' : ofQueries;
  const reason = `${[...texts, ...more].join(', ')}; its queries ${consequence}`;
  const at = since === Number.POSITIVE_INFINITY ? null : since;
  const severity = isRejected ? 'critical' : 'warning';
  return [problem('GroupUnavailable', severity, ['routingGroup', name], reason, at, [[name], rules])];
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
function gatewayProblems(components: readonly FailingComponent[], noLeader: Sweep['noLeader']): OverviewProblem[] {
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
interface QueueSample {
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
function queueProblems(queues: ReadonlyMap<string, readonly QueueSample[]>, targets: RuleTargets): OverviewProblem[] {
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
const RECENT_MS = 5 * 60_000;
const BEFORE_MS = 30 * 60_000;
/** Share of queries with faults from which it is a problem, where it is also this many times the share before. */
const FAULTY_SHARE = 0.05;
const RISE = 2;
/** Fewer faults than these are not significant. */
const MIN_FAULTS = 5;
const CRITICAL_SHARE = 0.5;

/** Clusters and groups whose error rate is up, most faults first. */
function raisedFaults(counts: readonly FaultCounts[]): FaultCounts[] {
  return counts
    .filter(({ recent, before }) => {
      if (recent.faults < MIN_FAULTS || share(recent) < FAULTY_SHARE) return false;
      return before.ended === 0 || share(recent) >= RISE * share(before);
    })
    .sort((a, b) => b.recent.faults - a.recent.faults);
}

/** Error rates that are up, of clusters, and of routing groups whose queries the gateway rejects. @param minutes of these counts */
function faultProblems(
  raised: readonly FaultCounts[],
  minutes: readonly FaultMinute[],
  targets: RuleTargets,
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

/** Retries of a routing group within `RECENT_MS` from which they are a problem. */
const MIN_RETRIES = 5;

/** Statements in quarantine, and routing groups of which many queries continued elsewhere; none without `survival`. */
async function survivalProblems({ store, table }: StoreContext): Promise<readonly OverviewProblem[]> {
  if (![...table.current.admission.groups.values()].some(({ survival }) => survival !== null)) return [];
  const [quarantined, retries] = await Promise.all([
    store.quarantine.active(),
    store.queuedQueries.retriesByGroup(RECENT_MS),
  ]);
  return [
    ...quarantined.map(({ group, digest, exactDigest, clusters, since, until }) => {
      const what = exactDigest === null ? 'all statements of the shape' : `statement ${exactDigest}`;
      const reason = `${group} rejects ${what} until ${iso(until)}; clusters ${clusters.slice(0, MAX_NAMED).join(', ')} were lost`;
      return problem('StatementQuarantined', 'warning', ['statement', digest], reason, since, [[group], []]);
    }),
    ...[...retries].flatMap(([group, count]) => {
      if (count < MIN_RETRIES) return [];
      const reason = `${count} queries continued on another cluster in the last 5 minutes`;
      return [problem('QueriesRetried', 'warning', ['routingGroup', group], reason, null, [[group], []])];
    }),
  ];
}

/** The rules file, if its last version did not load. */
function fileProblems(file: RuleInventory['file']): OverviewProblem[] {
  if (file === null || file.state === 'loaded' || file.state === 'absent') return [];
  const [first] = file.problems;
  const reason =
    first === undefined ? 'it has mistakes' : `line ${first.line}, column ${first.column}: ${first.message}`;
  const isPrevious = file.state === 'keptLast';
  const consequence = isPrevious ? 'its last version that loaded decides' : 'none of its rules decides';
  const severity = isPrevious ? 'warning' : 'critical';
  return [problem('RulesFileRejected', severity, ['rulesFile', file.path], `${reason}; ${consequence}`, null)];
}

/** Rules that are rejected, or that lead nowhere. */
function ruleProblems({ operator }: StoreContext, rules: readonly TargetingRule[]): OverviewProblem[] {
  return rules.flatMap((rule) => {
    const { name, status, message, unresolved, groups, origin } = rule;
    const [namespace = '', resource = ''] = rule.resource?.split('/') ?? [];
    const key = { kind: routingRule.kind, namespace, name: resource };
    const since = (type: string) => transition(operator?.source.get(key)?.status?.conditions ?? [], type);
    const affected = [groups, [name]] as const;
    // That the last version of the file decides, or none, is a problem of the file.
    const isPrevious = status === 'PreviousVersion' && origin === 'resource';
    if (status === 'NotAccepted' || isPrevious) {
      const reason = isPrevious ? `${message}; the version before decides` : message;
      return [problem('RuleRejected', 'warning', ['rule', name], reason, since('Accepted'), affected)];
    }
    if (unresolved === null || !isAsked(rule)) return [];
    return [problem('RuleUnresolved', 'warning', ['rule', name], unresolved, since('ResolvedRefs'), affected)];
  });
}
