import type { Problem } from '../../model/errors.ts';
import { checkGroupsFile, type GroupsFileCheck } from '../../model/groupsFile/groupsFile.ts';
import { isRecord } from '../../model/record.ts';
import { compileCheck } from '../../model/validation.ts';
import { MAX_LEVELS, ResourceGroupConfigurationSpec } from './spec.ts';

const checkSpec = compileCheck(ResourceGroupConfigurationSpec, 'spec');

/** Fields of the engine's file that its tables have no column for. */
const withoutColumn = new Set(['hardPhysicalDataScanLimit', 'physicalDataScanQuotaPeriod']);
const jsonWidths = { clientTags: 512, selectorResourceEstimate: 1_024 } as const;

/**
 * Mistakes in the spec of a ResourceGroupConfiguration, as with a file of the engine
 * (docs/resource-groups.md#checking-a-file).
 */
export function groupsProblems(spec: unknown): readonly Problem[] {
  const checked = checkSpec(spec);
  if (!checked.ok) return checked.problems.map(better);
  const { selectors, databases = [], firstPriority } = spec as ResourceGroupConfigurationSpec;
  const problems: Problem[] = [];
  if (new Set(databases).size < databases.length) {
    problems.push({ field: 'spec.databases', message: 'must not hold a name twice' });
  }
  if (firstPriority !== undefined && firstPriority < selectors.length) {
    const message = `must be at least ${selectors.length}, the number of selectors`;
    problems.push({ field: 'spec.firstPriority', message });
  }
  for (const [index, selector] of selectors.entries()) {
    for (const field of ['clientTags', 'selectorResourceEstimate'] as const) {
      const most = jsonWidths[field];
      if (selector[field] === undefined || JSON.stringify(selector[field]).length <= most) continue;
      problems.push({
        field: `spec.selectors[${index}].${field}`,
        message: `must have at most ${most} characters as JSON, which the engine's table has room for`,
      });
    }
  }
  return [...problems, ...checkedFile(spec, false).problems];
}

/** Warnings about a spec. @param withShadows as in `checkGroupsFile` */
export function groupsWarnings(spec: unknown, withShadows: boolean): readonly Problem[] {
  return checkedFile(spec, withShadows).warnings;
}

function checkedFile(spec: unknown, withShadows: boolean): GroupsFileCheck {
  if (!isRecord(spec)) return { problems: [], warnings: [] };
  const { rootGroups, selectors, cpuQuotaPeriod } = spec;
  const file = { rootGroups, selectors, ...(cpuQuotaPeriod === undefined ? {} : { cpuQuotaPeriod }) };
  const { problems, warnings } = checkGroupsFile(file, withShadows);
  const within = ({ field, message }: Problem): Problem => ({ field: `spec.${field}`, message });
  return { problems: problems.map(within), warnings: warnings.map(within) };
}

function better({ field, message }: Problem): Problem {
  const name = field.split('.').at(-1) ?? '';
  if (withoutColumn.has(name) && message === 'is not a known field') {
    return { field, message: "has no column in the tables that engines read; the engine's file alone has it" };
  }
  if (name === 'subGroups' && message === 'must have at most 0 entries') {
    return { field, message: `must be empty: groups are nested at most ${MAX_LEVELS} deep` };
  }
  return { field, message };
}
