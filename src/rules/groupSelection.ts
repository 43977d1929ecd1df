import { resourceEstimates as estimateFields, type FileSelector } from '../model/groupsFile/groupFields.ts';
import { expandedPath } from '../model/groupsFile/groupName.ts';
import type { Alternatives, PatternNode } from '../model/javaRegex/pattern.ts';
import { PatternError, parsePattern } from '../model/javaRegex/patternParser.ts';
import { WholeMatch } from '../model/javaRegex/wholeMatch.ts';
import { Turns } from '../model/turns.ts';
import { Evaluation, EvaluationError, type Sources, systemSources } from './evaluation.ts';
import { CompileError } from './language/source.ts';
import { defaultRuleLimits } from './limits.ts';
import { JavaPattern } from './regex/javaPattern.ts';

/** What engines know of a query when they choose its resource group (Trino: `SelectionCriteria`). */
export interface GroupCriteria {
  readonly user: string;
  readonly originalUser: string;
  /** Null: nobody was authenticated. */
  readonly authenticatedUser: string | null;
  readonly groups: readonly string[];
  readonly source: string | null;
  readonly clientTags: readonly string[];
  /** Resource group query type such as `SELECT`; null: unknown. */
  readonly queryType: string | null;
  /** Estimates that the client sent: sizes and durations as texts, null where there is none. */
  readonly resourceEstimates: {
    readonly executionTime: string | null;
    readonly cpuTime: string | null;
    readonly peakMemory: string | null;
  };
}

/** A condition of a selector. */
export type SelectorCondition = Exclude<keyof FileSelector, 'group'>;

/** What a selector did with a query. */
export interface SelectorResult {
  /** `unknown`: an expression that cannot be matched here. */
  readonly outcome: 'matched' | 'not-matched' | 'unknown';
  /** The condition that did not hold, or is not known; null for `matched`. */
  readonly condition: SelectorCondition | null;
  /** One sentence for people. */
  readonly message: string;
}

/** The group that an engine chooses. */
export interface GroupSelection {
  /** What each selector did, in their order, up to the first that matches. */
  readonly results: readonly SelectorResult[];
  /**
   * `selected`; `rejected`: no selector matches, so that the engine refuses the query; `failed`: the name of the group cannot
   * be made of what the query has, so that the query fails; `unknown`: it depends on what is not known here.
   */
  readonly outcome: 'selected' | 'rejected' | 'failed' | 'unknown';
  /** The first selector that matches, by its place in the list; null: none does, or it is not known. */
  readonly selector: number | null;
  /** The group's name, root first; null where there is none. */
  readonly group: readonly string[] | null;
  readonly message: string;
}

/** Processor time of one selection in milliseconds; expressions that are left then are not matched. */
const MOST_TIME = 1_000;
/** Bounds of what matching one selector takes. */
const LIMITS = { ...defaultRuleLimits, memory: 1_048_576, stringLength: 65_536, time: 20 };

/**
 * The group that an engine chooses for a query (Trino 476: `StaticSelector`, `ResourceGroupIdTemplate`): that of the first
 * selector all of whose conditions hold.
 * @param selectors that were checked (`checkGroupsFile`), in the order in which they are tried
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
 * Which of the selectors match a query, by their places in the list. One that cannot be matched here is left out.
 * @param selectors as of `selectGroup`, which looks at one after the other; this looks at all of them
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
  // A name without variables is what it is, whatever is known of them.
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

/** Processor time that one selection may take: what others do in between does not count. */
class TimeBudget {
  readonly #sources: Sources;
  #left = MOST_TIME;

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

/** What is not known of an expression. */
class Unknown {
  readonly message: string;

  constructor(message: string) {
    this.message = message;
  }
}

/** One selector and one query. */
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

  /** Whether the selector matches. A condition that does not hold decides, also where another is not known. */
  result(): SelectorResult {
    let unknown: SelectorResult | null = null;
    for (const [condition, value] of texts) {
      const regex = this.#selector[condition];
      if (regex == null) continue;
      const answer = this.#matches(regex, value(this.#criteria));
      if (answer instanceof Unknown) unknown ??= { outcome: 'unknown', condition, message: answer.message };
      else if (answer !== null) return { outcome: 'not-matched', condition, message: answer };
    }
    const plain = this.#plainCondition();
    return plain ?? unknown ?? matched;
  }

  /** Conditions without expressions; null: they hold. */
  #plainCondition(): SelectorResult | null {
    const { queryType, clientTags, selectorResourceEstimate } = this.#selector;
    const { queryType: type, clientTags: tags, resourceEstimates } = this.#criteria;
    const refused = (condition: SelectorCondition, message: string): SelectorResult => ({
      outcome: 'not-matched',
      condition,
      message,
    });
    if (queryType != null && queryType.toUpperCase() !== type?.toUpperCase()) {
      return refused('queryType', `queryType ${queryType} is not that of the query, ${type ?? 'which has none'}`);
    }
    for (const [name, read] of estimateFields) {
      const range = selectorResourceEstimate?.[name];
      if (range == null) continue;
      const text = resourceEstimates[name];
      const value = text === null ? null : read(text);
      const [min, max] = [range.min, range.max].map((end) => (end == null ? null : read(end)));
      if (value !== null && (min == null || min <= value) && (max == null || value <= max)) continue;
      const ends = `${range.min ?? 'anything'} to ${range.max ?? 'anything'}`;
      return refused('selectorResourceEstimate', `${name} is ${text ?? 'not estimated'}, and not ${ends}`);
    }
    const missing = (clientTags ?? []).filter((tag) => !tags.includes(tag));
    if (missing.length === 0) return null;
    return refused('clientTags', `the query has no client tag ${missing.map((tag) => JSON.stringify(tag)).join(', ')}`);
  }

  /** Why none of the values matches; null: one does. */
  #matches(regex: string, values: readonly string[]): string | null | Unknown {
    if (values.length === 0) return `${JSON.stringify(regex)} has nothing to match: the user is in no group`;
    try {
      const matches = this.#matcher(regex);
      if (values.some((value) => matches(value))) return null;
    } catch (error) {
      if (error instanceof EvaluationError || error instanceof PatternError) return new Unknown(error.message);
      throw error;
    }
    return `${JSON.stringify(regex)} does not match ${values.map((value) => JSON.stringify(value)).join(', ')}`;
  }

  /** @throws EvaluationError, PatternError where it cannot be matched here */
  #matcher(regex: string): (text: string) => boolean {
    const pattern = this.#pattern(regex);
    if (pattern !== null) return (text) => pattern.matches(text, this.#evaluation);
    const whole = new WholeMatch(regex);
    return (text) => whole.matches(text);
  }

  /** Null for an expression with what RE2 does not have. */
  #pattern(regex: string): JavaPattern | null {
    if (this.#budget.isSpent) throw new EvaluationError('the expressions before it took too long');
    try {
      return new JavaPattern(regex);
    } catch (error) {
      if (error instanceof CompileError) return null;
      throw error;
    }
  }

  /** Values of the variables of the group's name, of a selector that matches; a text says why they are not known. */
  variables(): ReadonlyMap<string, string> | string {
    const variables = new Map<string, string>();
    for (const [condition, value] of texts) {
      const regex = this.#selector[condition];
      const [text] = value(this.#criteria);
      if (regex == null || condition === 'userGroup' || text === undefined) continue;
      const names = groupNames(regex);
      if (names.size === 0) continue;
      try {
        const groups = this.#pattern(regex)?.captures(text, this.#evaluation) ?? null;
        if (groups === null) return `what the named groups of ${JSON.stringify(regex)} match is not known here`;
        for (const [name, index] of names) {
          const group = groups[index - 1];
          if (group != null) variables.set(name, group);
        }
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
 * Conditions that are expressions, in the order in which engines match them, and the values that they are about. Trino 476
 * takes a source or an authenticated user that is not there as an empty one.
 */
const texts = [
  ['user', ({ user }: GroupCriteria) => [user]],
  ['originalUser', ({ originalUser }: GroupCriteria) => [originalUser]],
  ['authenticatedUser', ({ authenticatedUser }: GroupCriteria) => [authenticatedUser ?? '']],
  ['source', ({ source }: GroupCriteria) => [source ?? '']],
  ['userGroup', ({ groups }: GroupCriteria) => groups],
] as const;

/** Deepest nesting of an expression that is looked into, as of those that are matched. */
const MAX_DEPTH = 50;

/** Numbers of an expression's named groups, from 1. */
function groupNames(regex: string): ReadonlyMap<string, number> {
  const names = new Map<string, number>();
  let count = 0;
  const visit = (node: PatternNode): void => {
    if (node.kind === 'repetition') visit(node.of);
    else if (node.kind === 'alternatives') visitAll(node);
    else if (node.kind === 'group') {
      if (node.form === 'capturing' || node.form === 'named') count += 1;
      if (node.name !== null) names.set(node.name, count);
      visitAll(node.body);
    }
  };
  const visitAll = ({ branches }: Alternatives): void => {
    for (const branch of branches) for (const node of branch) visit(node);
  };
  try {
    visitAll(parsePattern(regex, MAX_DEPTH));
  } catch (error) {
    if (!(error instanceof PatternError)) throw error;
  }
  return names;
}
