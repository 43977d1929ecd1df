import { problemText } from '../../model/errors.ts';
import { type DeclaredRows, declaredRows } from '../../model/groupsFile/declaredGroups.ts';
import { isOlder } from '../../model/nameClaims.ts';
import { keyTextOf, type Resource } from '../../model/resource.ts';
import type { KindProgram, ProgramSettings } from '../kindProgram.ts';
import { type Acceptance, accepted, liveOf, notAccepted, outcomeOf, type ResourceOutcome } from '../outcome.ts';
import { PolicyVersions } from '../policyProgram.ts';
import { RESOURCE_GROUP_CONFIGURATION } from './spec.ts';
import { checkGroupsSpec } from './validation.ts';

/** Content of a valid spec. */
export interface DeclaredGroups {
  readonly prune: boolean;
  readonly onDrift: 'repair' | 'report';
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
    const live = liveOf(resources).toSorted((a, b) => (isOlder(a, b) ? -1 : 1));
    const owners = new Map<string, GroupsOutcome>();
    const outcomes = live.map((resource): [string, GroupsOutcome] => {
      const judged = this.#judge(resource);
      const conflict = conflictOf(judged, owners);
      const own =
        conflict === null ? judged : { ...judged, acceptance: notAccepted('NameConflict', conflict), declared: null };
      for (const { key } of placesOf(own)) if (!owners.has(key)) owners.set(key, own);
      return [keyTextOf(resource), own.paused ? { ...own, declared: null } : own];
    });
    this.#versions.keep(new Set(live.map(({ metadata }) => metadata.uid)));
    return new Map(outcomes);
  }

  #judge(resource: Resource): GroupsOutcome {
    const { policy, ownDatabase = null } = this.#settings;
    const refusal = policy.trust?.refusal(resource.metadata.namespace) ?? null;
    if (refusal !== null) {
      return { ...outcomeOf(resource), acceptance: notAccepted('NamespaceNotTrusted', refusal), declared: null };
    }
    const judged = this.#versions.of(resource, '', () => judgedSpec(resource.spec, ownDatabase));
    return { ...outcomeOf(resource), ...judged };
  }
}

function judgedSpec(value: unknown, ownDatabase: string | null): Judged {
  const { spec, problems, warnings } = checkGroupsSpec(value, MAX_COMPARED_SELECTORS);
  if (spec === null) return { acceptance: notAccepted('InvalidSpec', problemText(problems)), declared: null };
  const { environment, prune = false, onDrift = 'repair', databases = [null], firstPriority = null } = spec;
  const names = databases.map((name) => (name === ownDatabase ? null : name));
  const roots = new Set(spec.rootGroups.map(({ name }) => name));
  const rows = declaredRows(spec, firstPriority);
  const listed = warnings.slice(0, MAX_WARNINGS).map(({ field, message }) => `${field} ${message}`);
  const more = warnings.length - listed.length;
  const texts = [...listed, ...(more > 0 ? [`${more} more, which engine-gateway validate prints`] : [])];
  return {
    acceptance: accepted(['the groups are valid', ...texts.map((text) => `warning: ${text}`)].join('; ')),
    declared: { databases: [...new Set(names)], environment, rows, roots, prune, onDrift },
  };
}

/** What a resource declares in each database: its root groups, and the period of CPU limits (without a root). */
function placesOf({ declared }: GroupsOutcome) {
  if (declared === null) return [];
  const { databases, environment, roots, rows } = declared;
  return databases.flatMap((database) => [
    ...[...roots].map((root) => ({ key: JSON.stringify([database, environment, root]), root, database })),
    ...(rows.cpuQuotaPeriod === null ? [] : [{ key: JSON.stringify([database]), root: null, database }]),
  ]);
}

function conflictOf(outcome: GroupsOutcome, owners: ReadonlyMap<string, GroupsOutcome>): string | null {
  const { environment, rows } = outcome.declared ?? {};
  for (const { key, root, database } of placesOf(outcome)) {
    const owner = owners.get(key);
    if (owner === undefined) continue;
    const { kind, namespace, name } = owner.key;
    const older = `the older ${kind} ${namespace}/${name}`;
    if (root !== null) {
      const where = database === null ? "the gateway's own database" : `the database ${database}`;
      return `the group ${root} of the environment ${environment} in ${where} belongs to ${older}; take it out of one of the two, what was applied before stays until then`;
    }
    // The period is of all groups of a database: several resources may declare the same.
    const [own, other] = [rows?.cpuQuotaPeriod, owner.declared?.rows.cpuQuotaPeriod];
    if (own === other) continue;
    return `spec.cpuQuotaPeriod ${own} is not ${other}, which ${older} declares for all groups of the same database; declare the same, or leave it out`;
  }
  return null;
}
