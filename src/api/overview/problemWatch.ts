import type { Logger } from 'pino';
import { ChangeCount } from '../../model/changeCount.ts';
import type { Clock } from '../../model/clock.ts';
import type { Condition } from '../../model/condition.ts';
import { within } from '../../model/timeLimit.ts';
import type { InventoryCluster } from '../../operator/registry/clusterInventory.ts';
import type { RoutingRules } from '../../operator/registry/routingRules.ts';
import type { InventoryRule, RuleInventory } from '../../operator/registry/ruleInventory.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import type { FaultCounts, FaultMinute, QueryRates } from '../../store/queryRates.ts';
import type { LeaderRepository, QueuedQueryRepository } from '../../store/store.ts';
import type { OverviewProblem, ProblemList } from '../answers/overview.ts';
import type { Readiness } from '../processReadiness.ts';
import { type ClusterFact, clusterProblems, type GroupFact } from './problems/clusterProblems.ts';
import { type ComponentFact, gatewayProblems, type NoLeaderFact } from './problems/gatewayProblems.ts';
import {
  BEFORE_MS,
  faultProblems,
  type GrownQueue,
  grownQueues,
  type QueueSample,
  queueProblems,
  RECENT_MS,
  raisedFaults,
} from './problems/loadProblems.ts';
import { problemList } from './problems/problemList.ts';
import {
  isAsked,
  type RuleFact,
  type RuleSince,
  type RulesFileFact,
  RuleTargetsIndex,
  ruleProblems,
} from './problems/ruleProblems.ts';

/** What problems are found from. */
export interface ProblemSources {
  readonly table: { readonly current: RoutingTable };
  readonly inventory: () => readonly InventoryCluster[];
  /** Grows whenever clusters, or their health, are others. */
  readonly inventoryStateVersion: () => number;
  /** Null: rules are not listed. */
  readonly rules: Pick<RoutingRules, 'inventory' | 'inventoryVersion' | 'groupsNamed'> | null;
  /** Conditions of the resource of a rule (`namespace/name`), as they are now. */
  readonly ruleConditions: (resource: string) => readonly Condition[];
  readonly defaultRoutingGroup: () => string;
  readonly readiness: Pick<Readiness, 'components'>;
  readonly leader: Pick<LeaderRepository, 'state'>;
  readonly queued: Pick<QueuedQueryRepository, 'waitingByGroup'>;
  readonly rates: Pick<QueryRates, 'faults' | 'faultMinutes'>;
  readonly clock: Clock;
  readonly logger: Logger;
}

/** Between two looks at what has no history of its own, so that it is known since when it is so. */
const LOOK_MS = 10_000;
/** A look that is older says nothing of when something began: the process was paused. */
const STALE_MS = 4 * LOOK_MS;
/** Somebody who asks gets what a look found that is at most so old. */
const FRESH_MS = 2_000;
/** Longest time that an answer waits for a look, or for faults to be counted: it then has what was known before. */
const PATIENCE_MS = 1_500;
/** How far back queue lengths are remembered, and how many of them. */
const SAMPLED_MS = 10 * 60_000;
const MAX_SAMPLES = 300;
/** Routing groups whose queue is remembered. */
const MAX_QUEUES = 1_000;
/** So long no replica leads before it is a problem: another one takes over within seconds. */
const LEADERLESS_MS = 10_000;
/** Faults are counted again after this time, where somebody looks. */
const FAULTS_MS = 15_000;
/** Clusters whose faults are looked at by minute. */
const MAX_RAISED = 10;
/** An answer is looked at again after this time, however often it is requested. */
const ANSWER_MS = 1_000;

/** What a look found. */
interface Look {
  readonly at: number;
  /** Monotonic. */
  readonly lookedAt: number;
  readonly facts: LookFacts;
}

/** The same object as long as looks find the same. */
interface LookFacts {
  readonly components: readonly ComponentFact[];
  readonly noLeader: NoLeaderFact | null;
  readonly queues: readonly GrownQueue[];
}

const unknownFacts: LookFacts = { components: [], noLeader: null, queues: [] };
type Samples = ReadonlyMap<string, readonly QueueSample[]>;

interface Faults {
  readonly raised: readonly FaultCounts[];
  readonly minutes: readonly FaultMinute[];
}

interface Rules {
  readonly facts: readonly RuleFact[];
  readonly resources: ReadonlyMap<RuleFact, string>;
  readonly targets: RuleTargetsIndex;
  readonly file: RulesFileFact | null;
}

/** The present problems, for callers who may list rules and for those who may not. */
interface Present {
  readonly version: number;
  readonly all: ProblemList;
  readonly withoutRules: ProblemList;
}

const noFaults: Faults = { raised: [], minutes: [] };
const noRules: Rules = { facts: [], resources: new Map(), targets: new RuleTargetsIndex([]), file: null };

/**
 * What is wrong now (docs/rest-api.md#problems): of clusters, rules and this replica as the process knows them, of all replicas as the
 * database does. It looks at what has no history of its own all the time, so that it knows since when it is so.
 */
export class ProblemWatch {
  readonly #sources: ProblemSources;
  readonly #versions = new ChangeCount();
  #look: Look | null = null;
  #looking: Promise<void> | null = null;
  #timer: NodeJS.Timeout | null = null;
  /** When what is in trouble was first noticed, by name; null: at the first look, so that it is not known since when. */
  readonly #since = new Map<string, number | null>();
  #faults: Faults = noFaults;
  #counting: { readonly at: number; readonly done: Promise<void> } | null = null;
  #rules: { readonly version: number; readonly rules: Promise<Rules> } | null = null;
  #present: { readonly at: number; readonly answer: Promise<Present> } | null = null;
  #latest: Present | null = null;
  #samples: Samples = new Map();
  /** Text of the facts of the last look. */
  #text = '';

  constructor(sources: ProblemSources) {
    this.#sources = sources;
  }

  /** Looks from now on. */
  start(): void {
    void this.#lookNow();
    this.#timer = setInterval(() => void this.#lookNow(), LOOK_MS).unref();
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** All problems, at most some seconds old. @param mayListRules whether the caller may know what rules say */
  async problems(mayListRules: boolean): Promise<ProblemList> {
    const at = this.#sources.clock.monotonic();
    if (this.#present === null || at - this.#present.at >= ANSWER_MS) {
      const answer = this.#findNow();
      const mine = { at, answer };
      this.#present = mine;
      answer.catch(() => {
        if (this.#present === mine) this.#present = null;
      });
    }
    const { all, withoutRules } = await this.#present.answer;
    return mayListRules ? all : withoutRules;
  }

  async #findNow(): Promise<Present> {
    const { clock, inventoryStateVersion } = this.#sources;
    const isFresh = this.#look !== null && clock.monotonic() - this.#look.lookedAt < FRESH_MS;
    const [rules] = await Promise.all([
      this.#listedRules(),
      isFresh ? null : within(this.#lookNow(), PATIENCE_MS, null),
      within(this.#countFaults(), PATIENCE_MS, null),
    ]);
    const { at, facts } = this.#look ?? { at: clock.now(), facts: unknownFacts };
    const asOf = new Date(at).toISOString();
    const version = this.#versions.of([facts, this.#faults, rules, inventoryStateVersion()]);
    if (this.#latest?.version === version) {
      const { all, withoutRules } = this.#latest;
      return { version, all: { ...all, asOf }, withoutRules: { ...withoutRules, asOf } };
    }
    const { raised, minutes } = this.#faults;
    const [clusters, groups] = [this.#clusterFacts(), this.#groupFacts()];
    const own = (targets: RuleTargetsIndex): OverviewProblem[] => [
      ...clusterProblems(clusters, groups, targets),
      ...queueProblems(facts.queues, targets),
      ...faultProblems(raised, minutes, targets),
      ...gatewayProblems(facts.components, facts.noLeader),
    ];
    const since: RuleSince = (rule, type) => this.#ruleSince(rules.resources.get(rule), type);
    const present = {
      version,
      all: problemList([...own(rules.targets), ...ruleProblems(rules.facts, rules.file, since)], at),
      withoutRules: problemList(own(noRules.targets), at),
    };
    this.#latest = present;
    return present;
  }

  #lookNow(): Promise<void> {
    this.#looking ??= this.#read().finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  /** Never rejects: a database that is unavailable is a problem of its own. */
  async #read(): Promise<void> {
    const { readiness, leader, queued, clock } = this.#sources;
    const lookedAt = clock.monotonic();
    const [components, leads, waiting] = await Promise.all([
      readiness.components(),
      within(this.#orNull(leader.state()), PATIENCE_MS, null),
      within(this.#orNull(queued.waitingByGroup()), PATIENCE_MS, null),
    ]);
    const at = clock.now();
    const before = this.#look !== null && lookedAt - this.#look.lookedAt < STALE_MS ? this.#look : null;
    const failing = components.filter(({ ok }) => !ok);
    const leaderless = leads !== null && !leads.isHeld ? leads : null;
    this.#noteSince(before === null ? null : at, [
      ...failing.map(({ name }) => name),
      ...(leaderless === null ? [] : ['leader']),
    ]);
    const sinceOf = (name: string) => this.#since.get(name) ?? null;
    const lostAt = leaderless?.expiredForMs == null ? sinceOf('leader') : at - leaderless.expiredForMs;
    const isSoon = lostAt !== null && at - lostAt < LEADERLESS_MS;
    if (waiting !== null) this.#samples = samples(this.#samples, waiting, at, before?.at ?? null);
    const facts = {
      components: failing.map((component) => ({ ...component, since: sinceOf(component.name) })),
      noLeader: leaderless === null || isSoon ? null : { since: lostAt },
      queues: grownQueues(this.#samples),
    };
    const text = JSON.stringify(facts);
    this.#look = { at, lookedAt, facts: this.#look !== null && text === this.#text ? this.#look.facts : facts };
    this.#text = text;
  }

  /** What a part of a look finds; null where it fails. */
  #orNull<T>(work: Promise<T>): Promise<T | null> {
    return work.catch((error: unknown) => {
      this.#sources.logger.debug({ err: error }, 'a part of the problems could not be looked at');
      return null;
    });
  }

  /** Remembers since when something has been in trouble. @param at now; null: it is not known since when what is new has been so */
  #noteSince(at: number | null, names: readonly string[]): void {
    for (const name of this.#since.keys()) if (!names.includes(name)) this.#since.delete(name);
    for (const name of names) if (!this.#since.has(name)) this.#since.set(name, at);
  }

  /** Counts faults where the last count is old. Never rejects. */
  #countFaults(): Promise<void> {
    const { clock, rates } = this.#sources;
    const at = clock.monotonic();
    if (this.#counting !== null && at - this.#counting.at < FAULTS_MS) return this.#counting.done;
    const recentFrom = clock.now() - RECENT_MS;
    const from = recentFrom - BEFORE_MS;
    const count = async () => {
      const raised = raisedFaults(await rates.faults({ from, recentFrom })).slice(0, MAX_RAISED);
      return { raised, minutes: await rates.faultMinutes(from, raised) };
    };
    const done = this.#orNull(count()).then((faults) => {
      // Nothing is the same object as nothing before, so that nothing is made of it again.
      this.#faults = faults === null || faults.raised.length === 0 ? noFaults : faults;
    });
    this.#counting = { at, done };
    return done;
  }

  #listedRules(): Promise<Rules> {
    const { rules } = this.#sources;
    if (rules === null) return Promise.resolve(noRules);
    const version = rules.inventoryVersion();
    if (this.#rules?.version === version) return this.#rules.rules;
    const listed = rules.inventory().then((inventory) => rulesOf(inventory, rules.groupsNamed()));
    const mine = { version, rules: listed };
    this.#rules = mine;
    listed.catch(() => {
      if (this.#rules === mine) this.#rules = null;
    });
    return listed;
  }

  #ruleSince(resource: string | undefined, type: string): number | null {
    return resource === undefined ? null : transition(this.#sources.ruleConditions(resource), type, 'False');
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
          // What is not in the table yet is no problem.
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
    const { table, defaultRoutingGroup } = this.#sources;
    const { groups, admission } = table.current;
    const byDefault = defaultRoutingGroup();
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
function samples(before: Samples, waiting: ReadonlyMap<string, number>, at: number, emptyAt: number | null): Samples {
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

function rulesOf({ rules, file }: RuleInventory, named: ReadonlyMap<string, readonly string[]>): Rules {
  const resources = new Map<RuleFact, string>();
  const facts = rules.map((rule) => {
    const fact = ruleFact(rule, named.get(`${rule.origin}/${rule.name}`) ?? []);
    if (rule.resource !== null) resources.set(fact, rule.resource);
    return fact;
  });
  return { facts, resources, targets: new RuleTargetsIndex(facts.filter(isAsked)), file: fileFact(file) };
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
