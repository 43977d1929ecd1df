import { problemText } from '../../model/errors.ts';
import { type DeclaredRows, declaredRows } from '../../model/groupsFile/declaredGroups.ts';
import { isOlder } from '../../model/nameClaims.ts';
import { keyTextOf, type Resource } from '../../model/resource.ts';
import type { GrantRejection, Tenancy } from '../../rules/tenancy.ts';
import { PERIOD_ROOT } from '../../store/resourceGroupStore.ts';
import type { KindProgram, ProgramSettings } from '../kindProgram.ts';
import {
  type Acceptance,
  accepted,
  liveOf,
  notAccepted,
  notGranted,
  outcomeOf,
  type ResourceOutcome,
} from '../outcome.ts';
import { PolicyVersions } from '../policyProgram.ts';
import { RESOURCE_GROUP_CONFIGURATION, type ResourceGroupConfigurationSpec } from './spec.ts';
import { checkGroupsSpec } from './validation.ts';

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
    const make = () => checkSpec(resource, ownDatabase, tenancy);
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

function checkSpec({ metadata, spec: value }: Resource, ownDatabase: string | null, tenancy: Tenancy): SpecOutcome {
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
