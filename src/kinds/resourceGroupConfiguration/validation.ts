import type { Problem } from '../../model/errors.ts';
import { checkGroupsFile } from '../../model/groupsFile/groupsFile.ts';
import { compileCheck } from '../../model/validation.ts';
import { MAX_LEVELS, ResourceGroupConfigurationSpec } from './spec.ts';

const checkSpec = compileCheck(ResourceGroupConfigurationSpec, 'spec');
const jsonWidths = { clientTags: 512, selectorResourceEstimate: 1_024 } as const;

/**
 * Checks the spec of a ResourceGroupConfiguration, as a file of the engine (docs/resource-groups.md#checking-a-file).
 * @returns the spec, null if it has mistakes; problems and warnings
 * @param maxCompared selectors are compared with each other if they are no more, which takes time
 */
export function checkGroupsSpec(value: unknown, maxCompared = 0) {
  const checked = checkSpec(value);
  if (!checked.ok) return { spec: null, problems: checked.problems.map(better), warnings: [] };
  const spec = checked.value as unknown as ResourceGroupConfigurationSpec;
  const { rootGroups, selectors, cpuQuotaPeriod, databases = [] } = spec;
  const own: Problem[] = [];
  if (new Set(databases).size < databases.length) {
    own.push({ field: 'databases', message: 'must not hold a name twice' });
  }
  for (const [index, selector] of selectors.entries()) {
    for (const name of ['clientTags', 'selectorResourceEstimate'] as const) {
      if ((JSON.stringify(selector[name]) ?? '').length <= jsonWidths[name]) continue;
      const message = `must have at most ${jsonWidths[name]} characters as JSON, which the engine's table has room for`;
      own.push({ field: `selectors[${index}].${name}`, message });
    }
  }
  const file = checkGroupsFile(
    { rootGroups, selectors, ...(cpuQuotaPeriod === undefined ? {} : { cpuQuotaPeriod }) },
    selectors.length <= maxCompared,
  );
  const within = ({ field, message }: Problem): Problem => ({ field: `spec.${field}`, message });
  const problems = [...own, ...file.problems].map(within);
  return { spec: problems.length === 0 ? spec : null, problems, warnings: file.warnings.map(within) };
}

function better({ field, message }: Problem): Problem {
  const name = field.split('.').at(-1) ?? '';
  if (/^(?:hardPhysicalDataScanLimit|physicalDataScanQuotaPeriod)$/.test(name) && message === 'is not a known field') {
    return { field, message: "has no column in the tables that engines read; the engine's file alone has it" };
  }
  if (name === 'maxRunning' && message === 'is not a known field') {
    return { field, message: 'is the former name of hardConcurrencyLimit; write that' };
  }
  if (name === 'subGroups' && message === 'must have at most 0 entries') {
    return { field, message: `must be empty: groups are nested at most ${MAX_LEVELS} deep` };
  }
  return { field, message };
}
