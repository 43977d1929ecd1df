import {
  type CheckedManifest,
  conditionColumn,
  type Exportable,
  type ExportedResource,
  type ManifestFinding,
  plainKind,
  type ResourceKind,
} from '../resourceKind.ts';
import { type GroupsOutcome, groupsProgram } from './groupsProgram.ts';
import { groupsStatus, statusProperties } from './groupsStatus.ts';
import { RESOURCE_GROUP_CONFIGURATION, RESOURCE_GROUP_CONFIGURATIONS, ResourceGroupConfigurationSpec } from './spec.ts';
import { checkGroupsSpec } from './validation.ts';

/** Resource groups of engines (docs/resource-groups.md#as-a-resource). */
export const resourceGroupConfiguration: ResourceKind<GroupsOutcome> = {
  ...plainKind,
  kind: RESOURCE_GROUP_CONFIGURATION,
  plural: RESOURCE_GROUP_CONFIGURATIONS,
  singular: 'resourcegroupconfiguration',
  shortName: 'rgc',
  description: 'ResourceGroupConfiguration declares resource groups and selectors of engines.',
  spec: ResourceGroupConfigurationSpec,
  statusProperties,
  columns: [
    { name: 'Environment', type: 'string', jsonPath: '.spec.environment', description: 'Environment of the engines.' },
    conditionColumn('Applied', 'The tables have what is declared.'),
    conditionColumn('Drift', 'Somebody else changed what is declared.'),
  ],
  selectableFields: ['.spec.environment', '.spec.gatewayClassName'],
  example: {
    environment: 'production',
    rootGroups: [{ name: 'global', softMemoryLimit: '80%', hardConcurrencyLimit: 100, maxQueued: 1_000 }],
    selectors: [{ group: 'global' }],
  },
  ownAccess: {
    verbs: ['get', 'list', 'watch', 'patch'],
    why: 'Resource groups are followed; REST writes to groups of a resource apply (patch) it.',
  },
  gauge: { name: 'resource_group_configurations', help: 'Resources that declare resource groups.' },
  specProblems: (spec) => checkGroupsSpec(spec).problems,
  findings,
  exported,
  program: groupsProgram,
  status: groupsStatus,
};

/** Warnings about a valid ResourceGroupConfiguration. */
function findings({ spec }: CheckedManifest): readonly ManifestFinding[] {
  const { problems, warnings } = checkGroupsSpec(spec, Infinity);
  if (problems.length > 0) return [];
  return warnings.map(({ field, message }) => ({ severity: 'warning', message: `${field} ${message}`, at: field }));
}

/** Resource groups of an environment and database as a resource. */
function* exported({ resourceGroups = [] }: Exportable): Generator<ExportedResource> {
  for (const { environment, database, file } of resourceGroups) {
    const spec = { environment, ...(database === null ? {} : { databases: [database] }), ...file };
    // Groups of one environment in several databases are separate resources.
    yield { registryName: database === null ? environment : `${environment}-${database}`, spec };
  }
}
