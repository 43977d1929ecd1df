import { resourceEstimates as estimateFields, type FileSelector } from '../model/groupsFile/groupFields.ts';
import { expandedPath } from '../model/groupsFile/groupName.ts';
import { Turns } from '../model/turns.ts';
import { Evaluation, EvaluationError, type Sources, systemSources } from './evaluation.ts';
import { CompileError } from './language/source.ts';
import { defaultRuleLimits } from './limits.ts';
import { JavaPattern } from './regex/javaPattern.ts';

/** Criteria of engines for a query's resource group (Trino: `SelectionCriteria`). */
export interface GroupCriteria {
  readonly user: string;
  readonly originalUser: string;
  /** Null: no authenticated user. */
  readonly authenticatedUser: string | null;
  readonly groups: readonly string[];
  readonly source: string | null;
  readonly clientTags: readonly string[];
  /** Resource group query type such as `SELECT`; null: unknown. */
  readonly queryType: string | null;
  /** Estimates that the client sent: sizes and durations as texts, or null. */
  readonly resourceEstimates: {
    readonly executionTime: string | null;
    readonly cpuTime: string | null;
    readonly peakMemory: string | null;
  };
}

export type SelectorCondition = Exclude<keyof FileSelector, 'group'>;

export interface SelectorResult {
  /** `unknown`: an expression that cannot be matched here. */
  readonly outcome: 'matched' | 'not-matched' | 'unknown';
  /** The condition that is false or unknown; null for `matched`. */
  readonly condition: SelectorCondition | null;
  readonly message: string;
}

export interface GroupSelection {
  /** Results of selectors in order, up to the first match. */
  readonly results: readonly SelectorResult[];
  /**
   * `selected`; `rejected`: no selector matches, so that the engine rejects the query; `failed`: the name of the group
   * cannot be formed, so that the query fails; `unknown`: it depends on unknown values.
   */
  readonly outcome: 'selected' | 'rejected' | 'failed' | 'unknown';
  /** Index of the first matching selector; null: none, or unknown. */
  readonly selector: number | null;
  /** The group's name, root first, or null. */
  readonly group: readonly string[] | null;
  readonly message: string;
}

/** Processor time of one selection in milliseconds; remaining expressions are not matched. */
const MAX_TIME = 1_000;
const LIMITS = { ...defaultRuleLimits, memory: 1_048_576, stringLength: 65_536, time: 20 };

/**
 * Returns the group that an engine chooses for a query (Trino 476: `StaticSelector`, `ResourceGroupIdTemplate`): that
 * of the first selector with only true conditions.
 * @param selectors checked selectors (`checkGroupsFile`), in order of evaluation
 */
export async function selectGroup(
  selectors: readonly FileSelector[],
  criteria: GroupCriteria,
  sources: Sources = systemSources,
): Promise<GroupSelection> {
  const turns = new Turns();
  const results: SelectorResult[] = [];
  const budget = new TimeBudget(sources);
  for (const [index, selector] of selectors.entries()) {
    if (turns.isOver) await turns.next();
    const attempt = new Attempt(selector, criteria, budget);
    const result = budget.measure(() => attempt.result());
    results.push(result);
    if (result.outcome === 'not-matched') continue;
    if (result.outcome === 'unknown') {
      const message = `whether selectors[${index}] matches is not known here: ${result.message}`;
      return { results, outcome: 'unknown', selector: null, group: null, message };
    }
    return { results, selector: index, ...named(selector.group, attempt.variables(), index) };
  }
  const message = 'no selector matches: the engine refuses the query (QUERY_REJECTED)';
  return { results, outcome: 'rejected', selector: null, group: null, message };
}

/**
 * Indexes of the selectors that match a query. Selectors that cannot be matched here are omitted.
 * @param selectors as of `selectGroup`, which stops at the first match; this evaluates all
 */
export async function matchingSelectors(
  selectors: readonly FileSelector[],
  criteria: GroupCriteria,
  sources: Sources = systemSources,
): Promise<readonly number[]> {
  const turns = new Turns();
  const budget = new TimeBudget(sources);
  const matching: number[] = [];
  for (const [index, selector] of selectors.entries()) {
    if (turns.isOver) await turns.next();
    const attempt = new Attempt(selector, criteria, budget);
    if (budget.measure(() => attempt.result()).outcome === 'matched') matching.push(index);
  }
  return matching;
}

function named(
  path: string,
  variables: ReadonlyMap<string, string> | string,
  index: number,
): Pick<GroupSelection, 'outcome' | 'group' | 'message'> {
  const by = `selectors[${index}] is the first that matches`;
  const none = { group: null };
  // A name without variables is constant.
  const values = typeof variables === 'string' ? new Map<string, string>() : variables;
  const expanded = expandedPath(path, values);
  if ('parts' in expanded) return { outcome: 'selected', group: expanded.parts, message: by };
  if (typeof variables === 'string') return { outcome: 'unknown', ...none, message: `${by}; ${variables}` };
  const why =
    'unresolved' in expanded
      ? `its expressions give the variable ${expanded.unresolved} no value for this query`
      : `the part ${expanded.emptyPart} of its group is empty for this query`;
  return { outcome: 'failed', ...none, message: `${by}, but ${why}: the query fails` };
}

const matched: SelectorResult = { outcome: 'matched', condition: null, message: 'all its conditions hold' };

/** Processor time of one selection, excluding other work in between. */
class TimeBudget {
  readonly #sources: Sources;
  #left = MAX_TIME;

  constructor(sources: Sources) {
    this.#sources = sources;
  }

  get isSpent(): boolean {
    return this.#left <= 0;
  }

  measure<T>(work: () => T): T {
    const began = this.#sources.processorTime();
    try {
      return work();
    } finally {
      this.#left -= this.#sources.processorTime() - began;
    }
  }
}

/** Evaluates one selector for one query. */
class Attempt {
  readonly #selector: FileSelector;
  readonly #criteria: GroupCriteria;
  readonly #budget: TimeBudget;
  readonly #evaluation = new Evaluation({} as Evaluation['objects'], LIMITS);

  constructor(selector: FileSelector, criteria: GroupCriteria, budget: TimeBudget) {
    this.#selector = selector;
    this.#criteria = criteria;
    this.#budget = budget;
  }

  /** Evaluates the selector. A false condition decides, even if another is unknown. */
  result(): SelectorResult {
    let unknown: SelectorResult | null = null;
    for (const [condition, value] of texts) {
      const regex = this.#selector[condition];
      if (regex == null) continue;
      try {
        const message = this.#failure(regex, value(this.#criteria));
        if (message !== null) return { outcome: 'not-matched', condition, message };
      } catch (error) {
        if (!(error instanceof EvaluationError)) throw error;
        unknown ??= { outcome: 'unknown', condition, message: error.message };
      }
    }
    return this.#plainCondition() ?? unknown ?? matched;
  }

  /** Evaluates conditions without expressions; null: all are true. */
  #plainCondition(): SelectorResult | null {
    const { queryType, clientTags, selectorResourceEstimate } = this.#selector;
    const { queryType: type, clientTags: tags, resourceEstimates } = this.#criteria;
    const failure = (condition: SelectorCondition, message: string): SelectorResult => ({
      outcome: 'not-matched',
      condition,
      message,
    });
    if (queryType != null && queryType.toUpperCase() !== type?.toUpperCase()) {
      return failure('queryType', `queryType ${queryType} is not that of the query, ${type ?? 'which has none'}`);
    }
    for (const [name, read] of estimateFields) {
      const range = selectorResourceEstimate?.[name];
      if (range == null) continue;
      const text = resourceEstimates[name];
      const value = text === null ? null : read(text);
      const [min, max] = [range.min, range.max].map((end) => (end == null ? null : read(end)));
      if (value !== null && (min == null || min <= value) && (max == null || value <= max)) continue;
      const ends = `${range.min ?? 'anything'} to ${range.max ?? 'anything'}`;
      return failure('selectorResourceEstimate', `${name} is ${text ?? 'not estimated'}, and not ${ends}`);
    }
    const missing = (clientTags ?? []).filter((tag) => !tags.includes(tag));
    if (missing.length === 0) return null;
    return failure('clientTags', `the query has no client tag ${missing.map((tag) => JSON.stringify(tag)).join(', ')}`);
  }

  /** Returns the reason that none of the values matches; null if one does. @throws EvaluationError if it is unknown */
  #failure(regex: string, values: readonly string[]): string | null {
    if (values.length === 0) return `${JSON.stringify(regex)} has nothing to match: the user is in no group`;
    const pattern = this.#pattern(regex);
    if (values.some((value) => pattern.matches(value, this.#evaluation))) return null;
    return `${JSON.stringify(regex)} does not match ${values.map((value) => JSON.stringify(value)).join(', ')}`;
  }

  /** @throws EvaluationError if RE2 cannot match the expression, or it took too long */
  #pattern(regex: string): JavaPattern {
    if (this.#budget.isSpent) throw new EvaluationError('the expressions before it took too long');
    try {
      return new JavaPattern(regex);
    } catch (error) {
      if (!(error instanceof CompileError)) throw error;
      throw new EvaluationError(`${JSON.stringify(regex)} is not evaluated here: ${error.message}`);
    }
  }

  /** Returns values of the group name's variables for a matching selector, or the reason that they are unknown. */
  variables(): ReadonlyMap<string, string> | string {
    const variables = new Map<string, string>();
    for (const [condition, value] of texts) {
      const regex = this.#selector[condition];
      const [text] = value(this.#criteria);
      if (regex == null || condition === 'userGroup' || text === undefined || !regex.includes('(?<')) continue;
      try {
        const groups = this.#pattern(regex).namedGroups(text, this.#evaluation) ?? [];
        for (const [name, group] of groups) variables.set(name, group);
      } catch (error) {
        if (error instanceof EvaluationError) return error.message;
        throw error;
      }
    }
    if (!variables.has('USER')) variables.set('USER', this.#criteria.user);
    if (!variables.has('SOURCE')) variables.set('SOURCE', this.#criteria.source ?? '');
    return variables;
  }
}

/**
 * Conditions with expressions, in the engine's order, and their values. Trino 476 treats a missing source or
 * authenticated user as empty.
 */
const texts = [
  ['user', ({ user }: GroupCriteria) => [user]],
  ['originalUser', ({ originalUser }: GroupCriteria) => [originalUser]],
  ['authenticatedUser', ({ authenticatedUser }: GroupCriteria) => [authenticatedUser ?? '']],
  ['source', ({ source }: GroupCriteria) => [source ?? '']],
  ['userGroup', ({ groups }: GroupCriteria) => groups],
] as const;
