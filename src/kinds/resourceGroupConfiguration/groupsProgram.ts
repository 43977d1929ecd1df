import { problemText } from '../../model/errors.ts';
import { type DeclaredRows, declaredRows } from '../../model/groupsFile/declaredGroups.ts';
import { isOlder } from '../../model/nameClaims.ts';
import { keyTextOf, type Resource } from '../../model/resource.ts';
import type { KindProgram, ProgramSettings } from '../kindProgram.ts';
import { type Acceptance, accepted, liveOf, notAccepted, outcomeOf, type ResourceOutcome } from '../outcome.ts';
import { PolicyVersions } from '../policyProgram.ts';
import { RESOURCE_GROUP_CONFIGURATION, type ResourceGroupConfigurationSpec } from './spec.ts';
import { groupsProblems, groupsWarnings } from './validation.ts';

/** Content of a valid spec. */
export interface DeclaredGroups extends Required<Pick<ResourceGroupConfigurationSpec, 'prune' | 'onDrift'>> {
  /** Each once; null: the gateway's own. */
  readonly databases: readonly (string | null)[];
  readonly environment: string;
  readonly rows: DeclaredRows;
  /** Names of the groups without a parent. */
  readonly roots: ReadonlySet<string>;
}

/** Outcome of a ResourceGroupConfiguration. */
export interface GroupsOutcome extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** Null: the tables stay as they are, as the resource is paused or not accepted. */
  readonly declared: DeclaredGroups | null;
}

/** True for the outcome of a ResourceGroupConfiguration. */
export function isGroupsOutcome(outcome: ResourceOutcome | undefined): outcome is GroupsOutcome {
  return outcome?.key.kind === RESOURCE_GROUP_CONFIGURATION;
}

type Judged = Pick<GroupsOutcome, 'acceptance' | 'declared'>;

/** Most selectors that are compared with each other here: more take too long between requests. */
const MAX_COMPARED_SELECTORS = 200;
/** Most warnings in a message. */
const MAX_WARNINGS = 3;

/** Decides what resources declare, and which of them owns a root group: the oldest. */
export class GroupsProgram implements KindProgram {
  readonly #settings: Pick<ProgramSettings, 'ownDatabase' | 'policy'>;
  readonly #versions = new PolicyVersions<Judged>();

  constructor(settings: Pick<ProgramSettings, 'ownDatabase' | 'policy'>) {
    this.#settings = settings;
  }

  restore(): void {
    // Applied groups are in the tables, and stay there.
  }

  refresh(resources: readonly Resource[]): ReadonlyMap<string, GroupsOutcome> {
    const live = liveOf(resources);
    const owners = new Map<string, GroupsOutcome>();
    const outcomes = new Map<string, GroupsOutcome>(
      live.map((resource) => [keyTextOf(resource), this.#judge(resource)]),
    );
    for (const outcome of [...outcomes.values()].sort((a, b) => (isOlder(a.resource, b.resource) ? -1 : 1))) {
      const { declared, paused } = outcome;
      const conflict = declared === null ? null : conflictOf(declared, owners);
      const own =
        conflict === null ? outcome : { ...outcome, acceptance: notAccepted('NameConflict', conflict), declared: null };
      for (const { key } of own.declared === null ? [] : placesOf(own.declared)) {
        if (!owners.has(key)) owners.set(key, own);
      }
      outcomes.set(keyTextOf(own.resource), paused ? { ...own, declared: null } : own);
    }
    this.#versions.keep(new Set(live.map(({ metadata }) => metadata.uid)));
    return outcomes;
  }

  #judge(resource: Resource): GroupsOutcome {
    const { policy, ownDatabase } = this.#settings;
    const refusal = policy.trust?.refusal(resource.metadata.namespace);
    const judged =
      refusal != null
        ? { acceptance: notAccepted('NamespaceNotTrusted', refusal), declared: null }
        : this.#versions.of(resource, '', () => judgedSpec(resource.spec, ownDatabase ?? null));
    return { ...outcomeOf(resource), ...judged };
  }
}

function judgedSpec(value: unknown, ownDatabase: string | null): Judged {
  const problems = groupsProblems(value);
  if (problems.length > 0) return { acceptance: notAccepted('InvalidSpec', problemText(problems)), declared: null };
  const spec = value as ResourceGroupConfigurationSpec;
  const { environment, prune = false, onDrift = 'repair', databases = [null], firstPriority = null } = spec;
  const names = databases.map((name) => (name === ownDatabase ? null : name));
  const roots = new Set(spec.rootGroups.map(({ name }) => name));
  const rows = declaredRows(spec, firstPriority);
  return {
    acceptance: acceptanceOf(spec),
    declared: { databases: [...new Set(names)], environment, rows, roots, prune, onDrift },
  };
}

function acceptanceOf(spec: ResourceGroupConfigurationSpec): Acceptance {
  const warnings = groupsWarnings(spec, spec.selectors.length <= MAX_COMPARED_SELECTORS);
  const listed = warnings.slice(0, MAX_WARNINGS).map(({ field, message }) => `${field} ${message}`);
  const more = warnings.length - listed.length;
  const texts = [...listed, ...(more > 0 ? [`${more} more, which engine-gateway validate prints`] : [])];
  return accepted(['the groups are valid', ...texts.map((text) => `warning: ${text}`)].join('; '));
}

const periodKey = (database: string | null): string => JSON.stringify([database]);

/** What a resource declares in each database: its root groups, and the period of CPU limits. */
function placesOf({ databases, environment, roots, rows }: DeclaredGroups) {
  return databases.flatMap((database) => [
    ...[...roots].map((root) => ({ key: JSON.stringify([database, environment, root]), root, database })),
    ...(rows.cpuQuotaPeriod === null ? [] : [{ key: periodKey(database), root: null, database }]),
  ]);
}

function conflictOf(declared: DeclaredGroups, owners: ReadonlyMap<string, GroupsOutcome>): string | null {
  const { cpuQuotaPeriod } = declared.rows;
  for (const { key, root, database } of placesOf(declared)) {
    const owner = owners.get(key);
    if (owner === undefined) continue;
    const { kind, namespace, name } = owner.key;
    const older = `the older ${kind} ${namespace}/${name}`;
    if (root !== null) {
      const where = database === null ? "the gateway's own database" : `the database ${database}`;
      return `the group ${root} of the environment ${declared.environment} in ${where} belongs to ${older}; take it out of one of the two, what was applied before stays until then`;
    }
    // The period is of all groups of a database: several resources may declare the same.
    const other = owner.declared?.rows.cpuQuotaPeriod;
    if (other === cpuQuotaPeriod) continue;
    return `spec.cpuQuotaPeriod ${cpuQuotaPeriod} is not ${other}, which ${older} declares for all groups of the same database; declare the same, or leave it out`;
  }
  return null;
}
