import { engineDurationMs, engineSizeBytes } from '../engineUnits.ts';
import type { Problem } from '../errors.ts';
import {
  checkFileGroup,
  checkFileSelector,
  checkGroupsFileFields,
  contradictions,
  type FileGroup,
  type FileSelector,
  limitsOf,
  percentage,
  selectorProblems,
  valueProblems,
} from './groupFields.ts';
import { groupSegmentProblem, variablesOf } from './groupName.ts';
import { shadowWarnings } from './shadowedSelectors.ts';

/** Maximum depth of groups; each level is a part of a name that users read. */
const MAX_DEPTH = 32;
const MAX_FINDINGS = 100;

/** Mistakes in a file of resource groups; `field` is a path such as `rootGroups[0].subGroups[1].name`. */
export interface GroupsFileCheck {
  /** Content that the engine rejects, or that prevents all queries. */
  readonly problems: readonly Problem[];
  /** Valid content that is most likely unintended. */
  readonly warnings: readonly Problem[];
}

/**
 * Checks a file of the file-based resource group manager as the engine does (Trino: `ManagerSpec`, `StaticSelector` and
 * `AbstractResourceConfigurationManager`), and for mistakes that the engine does not report, such as unreachable selectors.
 * @param withShadows true compares selectors with each other, which takes up to seconds for thousands of them
 */
export function checkGroupsFile(value: unknown, withShadows = true): GroupsFileCheck {
  const checked = checkGroupsFileFields(value);
  if (!checked.ok) return { problems: checked.problems, warnings: [] };
  const check = new FileCheck();
  const { rootGroups, selectors, cpuQuotaPeriod, physicalDataScanQuotaPeriod } = checked.value;
  check.period('cpuQuotaPeriod', cpuQuotaPeriod ?? null);
  check.period('physicalDataScanQuotaPeriod', physicalDataScanQuotaPeriod ?? null);
  if (physicalDataScanQuotaPeriod != null) check.newer('physicalDataScanQuotaPeriod');
  check.groups('rootGroups', rootGroups, null, cpuQuotaPeriod != null, 1);
  check.selectors(selectors, withShadows);
  return { problems: check.problems.slice(0, MAX_FINDINGS), warnings: check.warnings.slice(0, MAX_FINDINGS) };
}

interface Parent {
  readonly group: FileGroup;
  readonly path: string;
}

const hasWeights = (policy: string | null): boolean => policy === 'weighted' || policy === 'weighted_fair';
const policyOf = ({ schedulingPolicy }: FileGroup): string | null => schedulingPolicy?.toLowerCase() ?? null;
const hardLimit = ({ hardConcurrencyLimit, maxRunning }: FileGroup): number | null =>
  hardConcurrencyLimit ?? maxRunning ?? null;

class FileCheck {
  readonly problems: Problem[] = [];
  readonly warnings: Problem[] = [];
  /** Groups by path. */
  readonly #places = new Map<string, { readonly at: string; readonly hasSubGroups: boolean; isUsed: boolean }>();
  #isWhole = true;

  #reject(field: string, message: string): void {
    this.problems.push({ field, message });
  }

  #rejectWithin(at: string, problems: readonly Problem[]): void {
    for (const { field, message } of problems) this.#reject(field === '' ? at : `${at}.${field}`, message);
  }

  #warn(field: string, message: string): void {
    this.warnings.push({ field, message });
  }

  /** Records a field that is newer than the supported release's tables and files. */
  newer(field: string): void {
    this.#warn(field, 'is read by releases after Trino 476 only; that and earlier ones refuse the whole file');
  }

  period(field: string, text: string | null): void {
    if (text === null) return;
    const period = engineDurationMs(text);
    if (period === null) this.#reject(field, 'must be a duration such as 1h');
    else if (period === 0) this.#warn(field, 'is no time at all: limits of a period have no effect');
  }

  groups(field: string, values: readonly unknown[], parent: Parent | null, hasPeriod: boolean, depth: number): void {
    const groups: FileGroup[] = [];
    const names = new Set<string>();
    for (const [index, value] of values.entries()) {
      if (this.problems.length > MAX_FINDINGS) return;
      const at = `${field}[${index}]`;
      const checked = checkFileGroup(value);
      if (!checked.ok) {
        this.#isWhole = false;
        this.#rejectWithin(at, checked.problems);
        continue;
      }
      const group = checked.value;
      groups.push(group);
      if (names.has(group.name)) {
        const place = parent === null ? 'among the root groups' : 'under the same parent';
        this.#reject(`${at}.name`, `is ${JSON.stringify(group.name)}, as another group's ${place}`);
      }
      names.add(group.name);
      this.#limits(at, group, parent, hasPeriod);
      const path = parent === null ? group.name : `${parent.path}.${group.name}`;
      const subGroups = group.subGroups ?? [];
      if (!this.#places.has(path)) this.#places.set(path, { at, hasSubGroups: subGroups.length > 0, isUsed: false });
      if (depth === MAX_DEPTH && subGroups.length > 0) {
        this.#isWhole = false;
        this.#reject(`${at}.subGroups`, `must not be nested deeper than ${MAX_DEPTH} groups`);
      } else {
        this.groups(`${at}.subGroups`, subGroups, { group, path }, hasPeriod, depth + 1);
      }
    }
    if (parent !== null && groups.length === values.length) this.#weights(field, groups, parent);
  }

  #limits(at: string, group: FileGroup, parent: Parent | null, hasPeriod: boolean): void {
    const hard = hardLimit(group);
    // Without a hard limit no soft one is above it.
    const limits = { ...limitsOf(group), hardConcurrencyLimit: hard ?? Infinity };
    this.#rejectWithin(at, valueProblems(limits));
    for (const name of ['softCpuLimit', 'hardCpuLimit'] as const) {
      if (hasPeriod || limits[name] === null || engineDurationMs(limits[name]) === null) continue;
      this.#reject(`${at}.${name}`, 'needs cpuQuotaPeriod, the period that it is about');
    }
    if (hard === null) this.#reject(`${at}.hardConcurrencyLimit`, 'is required');
    this.#rejectWithin(at, contradictions(limits));
    if (group.hardConcurrencyLimit != null && group.maxRunning != null) {
      this.#warn(`${at}.maxRunning`, 'has no effect beside hardConcurrencyLimit, whose former name it is');
    }
    if (group.maxQueued == null) {
      this.#warn(`${at}.maxQueued`, 'is missing: 0, so that a query that cannot run at once is refused');
    }
    if (group.hardPhysicalDataScanLimit != null) {
      if (engineSizeBytes(group.hardPhysicalDataScanLimit) === null) {
        this.#reject(`${at}.hardPhysicalDataScanLimit`, 'must be a size such as 5TB');
      }
      this.newer(`${at}.hardPhysicalDataScanLimit`);
    }
    if (parent !== null) this.#withinParent(at, group, parent.group);
  }

  /** Checks limits against the parent's limits, and fields that depend on the parent's policy. */
  #withinParent(at: string, group: FileGroup, parent: FileGroup): void {
    const [hard, parentHard] = [hardLimit(group), hardLimit(parent)];
    if (hard !== null && parentHard !== null && hard > parentHard) {
      this.#warn(`${at}.hardConcurrencyLimit`, `is ${hard}, which is never reached: its parent's is ${parentHard}`);
    }
    const [memory, parentMemory] = [percentage(group.softMemoryLimit ?? ''), percentage(parent.softMemoryLimit ?? '')];
    if (memory !== null && parentMemory !== null && memory > parentMemory) {
      this.#warn(
        `${at}.softMemoryLimit`,
        `is ${group.softMemoryLimit}, which is never reached: its parent's is ${parent.softMemoryLimit}`,
      );
    }
    if (policyOf(parent) === 'query_priority' && policyOf(group) !== null && policyOf(group) !== 'query_priority') {
      this.#reject(`${at}.schedulingPolicy`, 'must be query_priority, as its parent has that');
    }
  }

  /** Checks weights, which depend on the parent's policy, and the sum of the limits. */
  #weights(field: string, groups: readonly FileGroup[], { group: parent }: Parent): void {
    const weighted = groups.flatMap(({ schedulingWeight }, index) => (schedulingWeight == null ? [] : [index]));
    const [first] = weighted;
    const policy = policyOf(parent);
    if (first !== undefined && hasWeights(policy) && weighted.length < groups.length) {
      const missing = groups.findIndex(({ schedulingWeight }) => schedulingWeight == null);
      this.#reject(
        `${field}[${missing}].schedulingWeight`,
        'is required, as other groups of the same parent have one: all of them, or none',
      );
    } else if (first !== undefined && !hasWeights(policy)) {
      const at = `${field}[${first}].schedulingWeight`;
      const needed = 'the parent needs schedulingPolicy weighted or weighted_fair';
      if (policy === null) this.#warn(at, `has no effect: ${needed}`);
      else this.#reject(at, `is not possible with the schedulingPolicy ${policy} of the parent: ${needed}`);
    }
    const limits = groups.map(hardLimit);
    const sum = limits.reduce<number>((total, limit) => total + (limit ?? 0), 0);
    const most = hardLimit(parent);
    // A name with variables stands for any number of groups.
    const isCounted = groups.length > 0 && groups.every(({ name }) => variablesOf(name).length === 0);
    if (isCounted && most !== null && sum < most) {
      this.#warn(
        field,
        `may run ${sum} queries together, so that hardConcurrencyLimit ${most} of the group above is never reached`,
      );
    }
  }

  selectors(values: readonly unknown[], withShadows: boolean): void {
    const selectors: { readonly at: string; readonly selector: FileSelector }[] = [];
    for (const [index, value] of values.entries()) {
      if (this.problems.length > MAX_FINDINGS) return;
      const at = `selectors[${index}]`;
      const checked = checkFileSelector(value);
      if (!checked.ok) {
        this.#rejectWithin(at, checked.problems);
        continue;
      }
      this.#selector(at, checked.value);
      selectors.push({ at, selector: checked.value });
    }
    // Follow-up mistakes are omitted.
    if (this.problems.length > 0) return;
    if (values.length === 0) this.#warn('selectors', 'is empty: the engine refuses every query');
    if (withShadows) this.warnings.push(...shadowWarnings(selectors));
    for (const [path, { at, isUsed }] of this.#places) {
      // Below a group without selectors the group itself is enough.
      if (isUsed || this.#places.get(pathsTo(path).at(-2) ?? '')?.isUsed === false) continue;
      this.#warn(at, `has no selector that leads to ${JSON.stringify(path)}, or below it: no query runs in it`);
    }
  }

  #selector(at: string, selector: FileSelector): void {
    this.#rejectWithin(at, selectorProblems(selector));
    const field = `${at}.group`;
    for (const part of selector.group.split('.')) {
      const problem = part === '' ? 'must not have an empty part between dots' : groupSegmentProblem(part);
      if (problem !== null) {
        this.#reject(field, problem);
        return;
      }
    }
    const defined = new Set(['USER', 'SOURCE']);
    for (const name of namingFields) {
      for (const [, variable = ''] of (selector[name] ?? '').matchAll(namedGroup)) {
        if (defined.has(variable)) this.#reject(`${at}.${name}`, `defines the variable ${variable} a second time`);
        defined.add(variable);
      }
    }
    const unknown = variablesOf(selector.group).filter((variable) => !defined.has(variable));
    if (unknown.length > 0) {
      const names = [...new Set(unknown)].join(', ');
      const source = 'a named group of user, originalUser, authenticatedUser or source';
      this.#reject(
        field,
        `has the variable ${names}, which no condition defines: USER and SOURCE are there, and ${source}`,
      );
    }
    if (!this.#isWhole) return;
    const paths = pathsTo(selector.group);
    const absent = paths.find((path) => !this.#places.has(path));
    if (absent !== undefined) {
      this.#reject(field, `leads nowhere: there is no group ${JSON.stringify(absent)}`);
      return;
    }
    const places = paths.flatMap((path) => this.#places.get(path) ?? []);
    for (const place of places) place.isUsed = true;
    if (places.at(-1)?.hasSubGroups === true) {
      this.#warn(field, 'has sub-groups: the engine refuses its queries as soon as one of these has had a query');
    }
  }
}

/** Paths of a group and of those above it, root first. */
function pathsTo(path: string): readonly string[] {
  const parts = path.split('.');
  return parts.map((_, index) => parts.slice(0, index + 1).join('.'));
}

const namingFields = ['user', 'originalUser', 'authenticatedUser', 'source'] as const;
/** The engine's expression for named groups. */
const namedGroup = /\(\?<([a-zA-Z][a-zA-Z0-9]*)>/g;
