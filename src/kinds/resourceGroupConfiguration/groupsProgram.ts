import { createHash } from 'node:crypto';
import { problemText } from '../../model/errors.ts';
import { declaredRows } from '../../model/groupsFile/declaredGroups.ts';
import { isOlder } from '../../model/nameClaims.ts';
import { keyOf, keyText, keyTextOf, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import { type Acceptance, refused } from '../acceptance.ts';
import type { KindProgram, ProgramSettings } from '../kindProgram.ts';
import { isPaused } from '../paused.ts';
import { PolicyVersions } from '../policyVersions.ts';
import type { DeclaredGroups, GroupsOutcome } from './groupsOutcome.ts';
import type { ResourceGroupConfigurationSpec } from './spec.ts';
import { groupsProblems, groupsWarnings } from './validation.ts';

/** What a version of a resource declares, or why it declares nothing. */
type Judged =
  | { readonly declared: DeclaredGroups; readonly acceptance: Acceptance }
  | { readonly acceptance: Acceptance };

/** Selectors up to which they are compared with each other here: more take too long between requests. */
const MOST_COMPARED_SELECTORS = 200;
/** Warnings in a message. */
const MAX_WARNINGS = 3;

/** Works out what resources declare, and which of them a group belongs to. */
export class GroupsProgram implements KindProgram {
  readonly #settings: Pick<ProgramSettings, 'ownDatabase' | 'policy'>;
  readonly #versions = new PolicyVersions<Judged>();

  constructor(settings: Pick<ProgramSettings, 'ownDatabase' | 'policy'>) {
    this.#settings = settings;
  }

  restore(): void {
    // What was applied is in the tables, and stays there.
  }

  refresh(resources: readonly Resource[]): ReadonlyMap<string, GroupsOutcome> {
    const live = resources.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const holders = new Map<string, Resource>();
    const periods = new Map<string | null, { readonly value: string; readonly resource: Resource }>();
    const outcomes = new Map<string, GroupsOutcome>();
    // The older one has a group that two declare.
    for (const resource of [...live].sort((a, b) => (isOlder(a, b) ? -1 : 1))) {
      const judged = this.#judge(resource);
      const paused = isPaused(resource);
      let { acceptance } = judged;
      let declared = 'declared' in judged ? judged.declared : null;
      if (declared !== null) {
        const conflict = conflictOf(declared, holders) ?? periodConflictOf(declared, periods);
        if (conflict === null) {
          for (const place of placesOf(declared)) holders.set(place.key, resource);
          const { cpuQuotaPeriod: value } = declared.rows;
          if (value !== null) for (const database of declared.databases) periods.set(database, { value, resource });
        } else {
          acceptance = refused('NameConflict', conflict);
          declared = null;
        }
      }
      const key = keyOf(resource);
      const registryName = registryNameOf(resource);
      outcomes.set(keyText(key), {
        key,
        resource,
        registryName,
        paused,
        acceptance,
        declared: paused ? null : declared,
      });
    }
    this.#versions.keep(new Set(live.map(({ metadata }) => metadata.uid)));
    // In the order of the resources, whatever their age.
    return new Map(live.flatMap((resource) => entryOf(outcomes, keyTextOf(resource))));
  }

  recompute(): void {
    // What a version declares depends on nothing else.
  }

  #judge(resource: Resource): Judged {
    const refusal = this.#settings.policy().trust?.refusal(resource.metadata.namespace);
    if (refusal != null) return { acceptance: refused('NamespaceNotTrusted', refusal) };
    return this.#versions.of(resource, '', () => {
      const problems = groupsProblems(resource.spec);
      if (problems.length > 0) return { acceptance: refused('InvalidSpec', problemText(problems)) };
      const spec = resource.spec as unknown as ResourceGroupConfigurationSpec;
      return { declared: declaredGroups(spec, this.#settings.ownDatabase?.() ?? null), acceptance: accepted(spec) };
    });
  }
}

function entryOf(outcomes: ReadonlyMap<string, GroupsOutcome>, key: string): readonly [string, GroupsOutcome][] {
  const outcome = outcomes.get(key);
  return outcome === undefined ? [] : [[key, outcome]];
}

function accepted(spec: ResourceGroupConfigurationSpec): Acceptance {
  const warnings = groupsWarnings(spec, spec.selectors.length <= MOST_COMPARED_SELECTORS);
  const listed = warnings.slice(0, MAX_WARNINGS).map(({ field, message }) => `${field} ${message}`);
  const more = warnings.length - listed.length;
  const texts = [...listed, ...(more > 0 ? [`${more} more, which engine-gateway validate prints`] : [])];
  const message = ['the groups are valid', ...texts.map((text) => `warning: ${text}`)].join('; ');
  return { status: 'True', reason: 'Accepted', message, final: false };
}

function declaredGroups(spec: ResourceGroupConfigurationSpec, ownDatabase: string | null): DeclaredGroups {
  const { environment, prune = false, onDrift = 'repair', databases = [null], firstPriority = null } = spec;
  const rows = declaredRows(spec, firstPriority);
  const names = databases.map((name) => (name === ownDatabase ? null : name));
  const digest = createHash('sha256')
    .update(JSON.stringify([rows, prune]))
    .digest('base64url');
  const roots = new Set(spec.rootGroups.map(({ name }) => name));
  return { databases: [...new Set(names)], environment, rows, digest, roots, prune, onDrift };
}

/** What a resource has for itself: its root groups. */
function placesOf({ databases, environment, roots }: DeclaredGroups) {
  return databases.flatMap((database) =>
    [...roots].map((root) => ({ key: JSON.stringify([database, environment, root]), root, database })),
  );
}

function conflictOf(declared: DeclaredGroups, holders: Map<string, Resource>): string | null {
  for (const { key, root, database } of placesOf(declared)) {
    const holder = holders.get(key);
    if (holder === undefined) continue;
    const { namespace, name } = holder.metadata;
    const where = database === null ? "the gateway's own database" : `the database ${database}`;
    return `the group ${root} of the environment ${declared.environment} in ${where} belongs to the older ${holder.kind} ${namespace}/${name}; take it out of one of the two, what was applied before stays until then`;
  }
  return null;
}

/** The period is of all groups of a database: several resources may declare it, but no two others. */
function periodConflictOf(
  { databases, rows: { cpuQuotaPeriod } }: DeclaredGroups,
  periods: ReadonlyMap<string | null, { readonly value: string; readonly resource: Resource }>,
): string | null {
  if (cpuQuotaPeriod === null) return null;
  for (const database of databases) {
    const holder = periods.get(database);
    if (holder === undefined || holder.value === cpuQuotaPeriod) continue;
    const { namespace, name } = holder.resource.metadata;
    return `spec.cpuQuotaPeriod ${cpuQuotaPeriod} is not ${holder.value}, which the older ${holder.resource.kind} ${namespace}/${name} declares for all groups of the same database; declare the same, or leave it out`;
  }
  return null;
}
