import { type Static, type TSchema, Type } from 'typebox';
import { type Problem, problemText } from '../../model/errors.ts';
import { type DeclaredRows, declaredRows } from '../../model/groupsFile/declaredGroups.ts';
import { checkGroupsFile } from '../../model/groupsFile/groupsFile.ts';
import { isOlder, keyText, keyTextOf, type Resource } from '../../model/resource.ts';
import { compileCheck } from '../../model/validation.ts';
import type { GrantRejection, Tenancy } from '../../rules/tenancy.ts';
import { PERIOD_ROOT } from '../../store/resourceGroupStore.ts';
import {
  type Acceptance,
  accepted,
  conditionState,
  liveOf,
  notAccepted,
  notGranted,
  outcomeOf,
  type ResourceOutcome,
  ready,
  type State,
  type StatusDraft,
  type StatusView,
  statusDraft,
} from '../outcome.ts';
import { PolicyVersions } from '../policyProgram.ts';
import {
  type CheckedManifest,
  column,
  conditionColumn,
  type Exportable,
  type ExportedResource,
  type KindProgram,
  type ManifestFinding,
  type ProgramSettings,
  plainKind,
  type ResourceKind,
} from '../resourceKind.ts';
import {
  MAX_LEVELS,
  RESOURCE_GROUP_CONFIGURATION,
  RESOURCE_GROUP_CONFIGURATIONS,
  ResourceGroupConfigurationSpec,
} from './spec.ts';

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

/** Content of a valid spec. */
export interface DeclaredGroups {
  readonly prune: boolean;
  readonly whenDrifted: 'Repair' | 'Report';
  /** Each once; null: the gateway's own. */
  readonly databases: readonly (string | null)[];
  readonly environment: string;
  readonly rows: DeclaredRows;
  /** Names of the groups without a parent, and `PERIOD_ROOT` with a period. */
  readonly roots: ReadonlySet<string>;
}

/** Outcome of a ResourceGroupConfiguration. */
export interface GroupsOutcome extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** Null: the tables stay as they are, as the resource is suspended or not accepted. */
  readonly declared: DeclaredGroups | null;
}

/** True for the outcome of a ResourceGroupConfiguration. */
export function isGroupsOutcome(outcome: ResourceOutcome | undefined): outcome is GroupsOutcome {
  return outcome?.key.kind === RESOURCE_GROUP_CONFIGURATION;
}

type SpecOutcome = Pick<GroupsOutcome, 'acceptance' | 'declared'>;

const rejection = (reason: string, message: string): SpecOutcome => ({
  ...{ acceptance: notAccepted(reason, message), declared: null },
});

/** Most selectors that are compared with each other here: more take too long between requests. */
const MAX_COMPARED_SELECTORS = 200;
const MAX_WARNINGS = 3;

/** Decides what resources declare, and which of them owns a root group: the oldest. */
export function groupsProgram({ ownDatabase = null }: ProgramSettings): KindProgram {
  const versions = new PolicyVersions<SpecOutcome>();
  const outcomeFor = (resource: Resource, tenancy: Tenancy): GroupsOutcome => {
    const make = () => specOutcome(resource, ownDatabase, tenancy);
    return { ...outcomeOf(resource), ...versions.of(resource, tenancy.key, make) };
  };
  return {
    // Applied groups are in the tables, and stay there.
    restore: () => undefined,
    refresh: (resources, { tenancy }) => {
      const live = liveOf(resources).toSorted((a, b) => (isOlder(a, b) ? -1 : 1));
      const owners = new Map<string, GroupsOutcome>();
      const outcomes = live.map((resource): [string, GroupsOutcome] => {
        const outcome = outcomeFor(resource, tenancy);
        const conflict = conflictOf(outcome, owners);
        const own = conflict === null ? outcome : { ...outcome, ...rejection('NameConflict', conflict) };
        for (const { key } of placesOf(own)) if (!owners.has(key)) owners.set(key, own);
        return [keyTextOf(resource), own.suspended ? { ...own, declared: null } : own];
      });
      versions.keep(new Set(live.map(({ metadata }) => metadata.uid)));
      return new Map(outcomes);
    },
  };
}

function specOutcome({ metadata, spec: value }: Resource, ownDatabase: string | null, tenancy: Tenancy): SpecOutcome {
  const { spec, problems, warnings } = checkGroupsSpec(value, MAX_COMPARED_SELECTORS);
  if (spec === null) return rejection('InvalidSpec', problemText(problems));
  const { declared, rejection: missing } = declaredGroups(spec, metadata.namespace, ownDatabase, tenancy);
  if (missing !== null) return { acceptance: notGranted(missing), declared: null };
  const listed = warnings.slice(0, MAX_WARNINGS).map(({ field, message }) => `${field} ${message}`);
  const more = warnings.length - listed.length;
  const texts = [...listed, ...(more > 0 ? [`${more} more, which engine-gateway validate prints`] : [])];
  const message = ['the groups are valid', ...texts.map((text) => `warning: ${text}`)].join('; ');
  return { acceptance: accepted(message), declared };
}

/**
 * The content of a valid spec, and the reason that its namespace may not declare it.
 * @param ownDatabase name of the gateway's own database
 */
export function declaredGroups(
  spec: ResourceGroupConfigurationSpec,
  namespace: string,
  ownDatabase: string | null,
  tenancy: Tenancy,
): { readonly declared: DeclaredGroups; readonly rejection: GrantRejection | null } {
  const { environment, prune = false, whenDrifted = 'Repair', databases: named = [null] } = spec;
  const databases = [...new Set(named.map((name) => (name === ownDatabase ? null : name)))];
  const roots = new Set(spec.rootGroups.map(({ name }) => name));
  if (spec.cpuQuotaPeriod !== undefined) roots.add(PERIOD_ROOT);
  const rows = declaredRows(spec, tenancy.firstPriority(namespace, spec.selectors.length));
  const rejection = tenancy.resourceGroupsRejection(namespace, spec, databases);
  return { declared: { databases, environment, rows, roots, prune, whenDrifted }, rejection };
}

/** What a resource declares in each database: its root groups, and the period of CPU limits. */
function placesOf({ declared }: GroupsOutcome) {
  const { databases = [], environment, roots = [] } = declared ?? {};
  return databases.flatMap((database) =>
    [...roots].map((root) => {
      // The period is of all groups of a database.
      const place = root === PERIOD_ROOT ? [database] : [database, environment, root];
      return { key: JSON.stringify(place), root, database };
    }),
  );
}

function conflictOf(outcome: GroupsOutcome, owners: ReadonlyMap<string, GroupsOutcome>): string | null {
  const { environment, rows } = outcome.declared ?? {};
  for (const { key, root, database } of placesOf(outcome)) {
    const owner = owners.get(key);
    if (owner === undefined) continue;
    const { kind, namespace, name } = owner.key;
    const older = `the older ${kind} ${namespace}/${name}`;
    if (root !== PERIOD_ROOT) {
      const where = database === null ? "the gateway's own database" : `the database ${database}`;
      return `the group ${root} of the environment ${environment} in ${where} belongs to ${older}; take it out of one of the two, what was applied before stays until then`;
    }
    // Several resources may declare the same period.
    const [own, other] = [rows?.cpuQuotaPeriod, owner.declared?.rows.cpuQuotaPeriod];
    if (own === other) continue;
    return `spec.cpuQuotaPeriod ${own} is not ${other}, which ${older} declares for all groups of the same database; declare the same, or leave it out`;
  }
  return null;
}

const list = <T extends TSchema>(items: T, description: string) =>
  Type.Array(items, { description, 'x-kubernetes-list-type': 'atomic' });
const rows = (description: string) => Type.Integer({ format: 'int32', description });

const Drift = Type.Object(
  {
    at: Type.String({ format: 'date-time', description: 'When it was noticed.' }),
    repaired: Type.Boolean({ description: 'Whether it was put right.' }),
    rows: rows('How many rows differed.'),
    differences: list(Type.String(), 'Some of them in words.'),
  },
  { description: 'What somebody else changed since that generation was applied.' },
);
/** External changes of declared rows. */
export type GroupDrift = Static<typeof Drift>;

const DatabaseState = Type.Object(
  {
    name: Type.Optional(Type.String({ description: "As useSchema names it; left out for the gateway's own." })),
    environment: Type.String({ description: 'Environment of the groups.' }),
    appliedGeneration: Type.Optional(
      Type.Integer({ format: 'int64', description: 'Generation of the spec that is in the tables.' }),
    ),
    groups: rows('Rows of groups.'),
    selectors: rows('Rows of selectors.'),
    drift: Type.Optional(Drift),
    failure: Type.Optional(Type.String({ description: 'Why the present generation is not there.' })),
  },
  { description: 'One database.' },
);
/** A database in the status. */
export type DatabaseState = Static<typeof DatabaseState>;

export const statusProperties = { databases: list(DatabaseState, 'What is in the tables, by database.') };

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
    column('Environment', 'string', 'spec.environment', 'Environment of the engines.'),
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

/** A database in the status, and the reason of its failure as conditions have it. */
export type GroupTargetState = DatabaseState & { readonly reason?: string };

/** The state of a database among those of a resource. @param database null: the gateway's own */
export function databaseState<S extends DatabaseState>(
  states: readonly S[],
  database: string | null,
  environment: string,
): S | undefined {
  return states.find((each) => (each.name ?? null) === database && each.environment === environment);
}

type Targets = readonly GroupTargetState[] | undefined;

function groupsStatus(outcome: GroupsOutcome, { stored, findings }: StatusView): StatusDraft {
  const { acceptance } = outcome;
  const { targets: states } = findings.of(keyText(outcome.key));
  const applied = appliedState(outcome, states);
  const own = ready(acceptance, stored);
  const message = 'accepted, and in the tables of the engines';
  const isOwn = own.status !== 'True' || outcome.suspended;
  const all = isOwn ? own : applied.status === 'True' ? { ...own, message } : applied;
  const fields = states === undefined ? {} : { databases: states.map(({ reason: _, ...state }) => state) };
  return statusDraft(outcome, acceptance, fields, { Applied: applied, Drift: driftState(states ?? []), Ready: all });
}

function appliedState({ acceptance, suspended, resource }: GroupsOutcome, states: Targets): State {
  if (acceptance.status !== 'True') return { ...acceptance, message: 'what was applied before stays in the tables' };
  if (suspended) return conditionState('Unknown', 'Suspended', 'nothing is written while spec.suspend is true');
  if (states === undefined) return conditionState('Unknown', 'Pending', 'the tables are not written yet');
  const failed = states.filter(({ failure }) => failure !== undefined);
  if (failed.length > 0) {
    const message = failed.map((state) => `${titleOf(state)}: ${state.failure}`).join('; ');
    return conditionState('False', failed[0]?.reason ?? 'NotPossible', message);
  }
  const count = states.length === 1 ? 'one database' : `${states.length} databases`;
  const message = `generation ${resource.metadata.generation} is in the tables of ${count}`;
  return conditionState('True', 'Applied', message);
}

function driftState(states: readonly GroupTargetState[]): State | null {
  if (states.length === 0) return null;
  const drifted = states.filter(({ drift }) => drift !== undefined);
  const state = drifted.find(({ drift }) => drift?.repaired === false) ?? drifted[0];
  if (state?.drift === undefined) return conditionState('False', 'InStep', 'nobody else changed what is declared');
  const { at, rows: count, differences, repaired } = state.drift;
  const more = count > differences.length ? `, and ${count - differences.length} more` : '';
  const what = `${titleOf(state)}: ${differences.join('; ')}${more}`;
  return repaired
    ? conditionState('False', 'Repaired', `somebody else had changed ${what}; put right ${at}`)
    : conditionState('True', 'Changed', `somebody else changed ${what}; put it back, or declare it (noticed ${at})`);
}

const titleOf = ({ name }: GroupTargetState): string => name ?? "the gateway's own database";

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
