import { describe, expect, test } from 'vitest';
import { resourceGroupConfiguration } from '../../../src/kinds/resourceGroupConfiguration/kind.ts';

const group = (more: object = {}) => ({ name: 'a', hardConcurrencyLimit: 5, maxQueued: 1, ...more });
const spec = (more: object = {}) => ({
  environment: 'test',
  rootGroups: [group()],
  selectors: [{ group: 'a' }],
  ...more,
});
const nested = (levels: number): object => group(levels === 1 ? {} : { subGroups: [nested(levels - 1)] });
const problems = (value: unknown): string =>
  resourceGroupConfiguration
    .specProblems(value)
    .map(({ field, message }) => `${field} ${message}`)
    .join('; ');

describe('the spec of resource groups', () => {
  test.each<[string, object]>([
    ['the content of a file', spec({ cpuQuotaPeriod: '1h', rootGroups: [group({ hardCpuLimit: '30m' })] })],
    ['where it goes', spec({ databases: ['a', 'b'], prune: true, onDrift: 'report', firstPriority: 1 })],
    ['eight levels', spec({ rootGroups: [nested(8)], selectors: [{ group: 'a.a.a.a.a.a.a.a' }] })],
    ['nothing', spec({ rootGroups: [], selectors: [] })],
  ])('%s is fine', (_, value) => {
    expect(problems(value)).toBe('');
  });

  test.each<[spec: object, problem: string]>([
    [{ rootGroups: [], selectors: [] }, 'spec.environment is required'],
    [spec({ rootGroups: [nested(9)] }), 'must be empty: groups are nested at most 8 deep'],
    [spec({ rootGroups: [group({ name: 'a.b' })] }), 'spec.rootGroups[0].name must not hold a dot'],
    [
      spec({ rootGroups: [group({ softMemoryLimit: '101%' })] }),
      'spec.rootGroups[0].softMemoryLimit must be at most 100%',
    ],
    [spec({ rootGroups: [group({ hardCpuLimit: '1h' })] }), 'spec.rootGroups[0].hardCpuLimit needs cpuQuotaPeriod'],
    [
      spec({ rootGroups: [group({ hardPhysicalDataScanLimit: '1TB' })] }),
      'spec.rootGroups[0].hardPhysicalDataScanLimit has no column in the tables',
    ],
    [spec({ selectors: [{ group: 'b' }] }), 'spec.selectors[0].group leads nowhere'],
    [
      spec({ firstPriority: 1, selectors: [{ user: 'x', group: 'a' }, { group: 'a' }] }),
      'spec.firstPriority must be at least 2',
    ],
    [spec({ databases: ['a', 'a'] }), 'spec.databases must not hold a name twice'],
    [spec({ databases: ["a'; drop"] }), 'spec.databases[0] must match'],
    [
      spec({ selectors: [{ clientTags: Array.from({ length: 60 }, () => 'x'.repeat(10)), group: 'a' }] }),
      'spec.selectors[0].clientTags must have at most 512 characters as JSON',
    ],
  ])('%j: %s', (value, problem) => {
    expect(problems(value)).toContain(problem);
  });
});
