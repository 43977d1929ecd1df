import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { Condition } from '../../model/condition.ts';
import { within } from '../../model/timeLimit.ts';
import type { InventoryCluster } from '../../operator/registry/clusterRegistry.ts';
import type { RoutingRules } from '../../operator/registry/routingRules.ts';
import type { InventoryRule, RuleInventory } from '../../operator/registry/ruleInventory.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { LeaderRepository } from '../../store/leaderRepository.ts';
import type { FaultCounts, FaultMinute, QueryRates } from '../../store/queryRates.ts';
import type { QueuedQueryRepository } from '../../store/queuedQueryRepository.ts';
import type { OverviewProblem, ProblemList } from '../answers/overview.ts';
import type { Readiness } from '../probes.ts';
import {
  BEFORE_MS,
  type ClusterFact,
  type ComponentFact,
  clusterProblems,
  faultProblems,
  type GroupFact,
  gatewayProblems,
  isAsked,
  type NoLeaderFact,
  problemList,
  type QueueSample,
  queueProblems,
  RECENT_MS,
  type RuleFact,
  type RulesFileFact,
  RuleTargetsIndex,
  raisedFaults,
  ruleProblems,
} from './problems.ts';

export interface ProblemSources {
  readonly table: { readonly current: RoutingTable };
  readonly inventory: () => readonly InventoryCluster[];
  /** Null: rules are not listed. */
  readonly rules: Pick<RoutingRules, 'inventory' | 'groupsNamed'> | null;
  /** Conditions of the resource of a rule (`namespace/name`), as they are now. */
  readonly ruleConditions: (resource: string) => readonly Condition[];
  readonly defaultRoutingGroup: string;
  readonly readiness: Pick<Readiness, 'components'>;
  readonly leader: Pick<LeaderRepository, 'state'>;
  readonly queued: Pick<QueuedQueryRepository, 'waitingByGroup'>;
  readonly rates: Pick<QueryRates, 'faults' | 'faultMinutes'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Interval of looks at what has no history, so that it is known since when it is so. */
const LOOK_MS = 10_000;
/** A look that is older does not show when something began: the process was paused. */
const STALE_MS = 4 * LOOK_MS;
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
/** Clusters whose faults are looked at by minute. */
const MAX_RAISED = 10;

interface Look {
  /** Milliseconds since 1970. */
  readonly at: number;
  readonly components: readonly ComponentFact[];
  readonly noLeader: NoLeaderFact | null;
}

/** The problems for callers who may list rules, and for those who may not. */
interface Lists {
  readonly all: ProblemList;
  readonly withoutRules: ProblemList;
}

/** Clusters and groups whose error rate is up, and their minutes. */
type Faults = readonly [raised: readonly FaultCounts[], minutes: readonly FaultMinute[]];

/** Finds what is wrong now (docs/rest-api.md#problems): clusters, rules and this replica as the process knows them, the rest from the database. */
export class ProblemWatch {
  readonly #sources: ProblemSources;
  #timer: NodeJS.Timeout | null = null;
  #look: Look | null = null;
  /** When a failing component was first noticed, by name; null: before the first look. */
  readonly #since = new Map<string, number | null>();
  #samples: ReadonlyMap<string, readonly QueueSample[]> = new Map();
  #counting: { readonly at: number; readonly done: Promise<void> } | null = null;
  #faults: Faults = [[], []];
  #latest: { readonly at: number; readonly lists: Promise<Lists> } | null = null;

  constructor(sources: ProblemSources) {
    this.#sources = sources;
  }

  start(): void {
    void this.#lookNow();
    this.#timer = setInterval(() => void this.#lookNow(), LOOK_MS).unref();
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** All problems, at most some seconds old. @param mayListRules whether the caller may see rules */
  async problems(mayListRules: boolean): Promise<ProblemList> {
    const at = this.#sources.clock.monotonic();
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
    const { rules, clock, ruleConditions } = this.#sources;
    const [inventory] = await Promise.all([
      rules?.inventory() ?? null,
      within(this.#countFaults(), PATIENCE_MS, null),
      within(this.#lookNow(), PATIENCE_MS, null),
    ]);
    const { at, components, noLeader } = this.#look ?? { at: clock.now(), components: [], noLeader: null };
    const listed = inventory?.rules ?? [];
    const named = rules?.groupsNamed() ?? new Map<string, readonly string[]>();
    const rulesOf = new Map(
      listed.map((rule) => [ruleFact(rule, named.get(`${rule.origin}/${rule.name}`) ?? []), rule]),
    );
    const facts = [...rulesOf.keys()];
    const [clusters, groups] = [this.#clusterFacts(), this.#groupFacts()];
    const [raised, minutes] = this.#faults;
    const own = (targets: RuleTargetsIndex): OverviewProblem[] => [
      ...clusterProblems(clusters, groups, targets),
      ...queueProblems(this.#samples, targets),
      ...faultProblems(raised, minutes, targets),
      ...gatewayProblems(components, noLeader),
    ];
    const ofRules = ruleProblems(facts, fileFact(inventory?.file ?? null), (fact, type) => {
      const resource = rulesOf.get(fact)?.resource ?? null;
      return resource === null ? null : transition(ruleConditions(resource), type, 'False');
    });
    return {
      all: problemList([...own(new RuleTargetsIndex(facts.filter(isAsked))), ...ofRules], at),
      withoutRules: problemList(own(new RuleTargetsIndex([])), at),
    };
  }

  /** Never rejects: an unavailable database is itself a problem. */
  async #lookNow(): Promise<void> {
    const { readiness, leader, queued, clock } = this.#sources;
    const [components, leads, waiting] = await Promise.all([
      readiness.components(),
      within(this.#orNull(leader.state()), PATIENCE_MS, null),
      within(this.#orNull(queued.waitingByGroup()), PATIENCE_MS, null),
    ]);
    const at = clock.now();
    const before = this.#look !== null && at - this.#look.at < STALE_MS ? this.#look.at : null;
    const failing = components.filter(({ ok }) => !ok);
    const leaderless = leads !== null && !leads.isHeld ? leads : null;
    const names = [...failing.map(({ name }) => name), ...(leaderless === null ? [] : ['leader'])];
    for (const name of this.#since.keys()) if (!names.includes(name)) this.#since.delete(name);
    for (const name of names) if (!this.#since.has(name)) this.#since.set(name, before === null ? null : at);
    const sinceOf = (name: string) => this.#since.get(name) ?? null;
    const lostAt = leaderless?.expiredForMs == null ? sinceOf('leader') : at - leaderless.expiredForMs;
    const isSoon = lostAt !== null && at - lostAt < LEADERLESS_MS;
    if (waiting !== null) this.#samples = samples(this.#samples, waiting, at, before);
    this.#look = {
      at,
      components: failing.map((component) => ({ ...component, since: sinceOf(component.name) })),
      noLeader: leaderless === null || isSoon ? null : { since: lostAt },
    };
  }

  /** The result of a part of a look; null if it fails. */
  #orNull<T>(work: Promise<T>): Promise<T | null> {
    return work.catch((error: unknown) => {
      this.#sources.logger.debug({ err: error }, 'failed to check for problems');
      return null;
    });
  }

  /** Counts faults if the last count is old. Never rejects. */
  #countFaults(): Promise<void> {
    const { clock, rates } = this.#sources;
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

  #clusterFacts(): ClusterFact[] {
    const { clusters } = this.#sources.table.current;
    return this.#sources.inventory().map(({ name, routable, resource }) => {
      const conditions = resource?.conditions ?? [];
      const entry = routable === null ? undefined : clusters.get(name);
      if (entry === undefined) {
        const accepted = conditions.find(({ type }) => type === 'Accepted');
        const isRejected = routable === null && accepted?.status === 'False';
        return {
          name,
          // A cluster outside of the table is not a problem yet.
          group: isRejected ? null : (routable?.routingGroup ?? ''),
          ...{ active: false, status: 'PENDING', isChecked: false, reason: accepted?.message ?? '' },
          since: isRejected ? transition(conditions, 'Accepted', 'False') : null,
        };
      }
      const { health, active, routingGroup, lastHealthyAt } = entry;
      return {
        ...{ name, group: routingGroup, active, status: health.status, reason: health.reason },
        isChecked: health.checkedAt !== null || health.status === 'UNHEALTHY',
        since: active
          ? (transition(conditions, 'Healthy', 'False') ?? lastHealthyAt ?? null)
          : transition(conditions, 'Active', 'False'),
      };
    });
  }

  #groupFacts(): GroupFact[] {
    const { table, defaultRoutingGroup: byDefault } = this.#sources;
    const { groups, admission } = table.current;
    return [...groups.keys()].map((name) => {
      const policy = admission.groups.get(name);
      const waits = policy?.queue.whenUnavailable === 'wait';
      const fallbacks = policy?.fallbacks ?? [];
      return {
        ...{ name, waits, bestEffort: policy?.bestEffort ?? false, isDefault: name === byDefault },
        substitutes: waits || name === byDefault ? fallbacks : [...fallbacks, byDefault],
      };
    });
  }
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

/** Milliseconds since 1970 at which a condition took a status that it still has; null: it has another one. */
function transition(conditions: readonly Condition[], type: string, status: Condition['status']): number | null {
  const condition = conditions.find((each) => each.type === type);
  if (condition?.status !== status) return null;
  const time = Date.parse(condition.lastTransitionTime);
  return Number.isNaN(time) ? null : time;
}

function ruleFact(rule: InventoryRule, named: readonly string[]): RuleFact {
  const { name, status, message, unresolved, routeTo, origin } = rule;
  const group = routeTo?.routingGroup;
  return {
    ...{ name, message, unresolved, groups: group === undefined ? named : [group], cluster: routeTo?.cluster ?? null },
    // That the last version of the file decides is a problem of the file.
    status: origin === 'file' && status === 'PreviousVersion' ? 'Programmed' : status,
  };
}

function fileFact(file: RuleInventory['file']): RulesFileFact | null {
  if (file === null || file.state === 'loaded' || file.state === 'absent') return null;
  const [first] = file.problems;
  const reason =
    first === undefined ? 'it has mistakes' : `line ${first.line}, column ${first.column}: ${first.message}`;
  return { path: file.path, isKept: file.state === 'keptLast', reason };
}
