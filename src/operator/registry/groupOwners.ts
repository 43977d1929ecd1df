import { RESOURCE_GROUP_CONFIGURATION } from '../../kinds/resourceGroupConfiguration/spec.ts';
import { GatewayError } from '../../model/errors.ts';
import { pathsOf } from '../../model/groupsFile/groupChanges.ts';
import type { ResourceGroupRow } from '../../model/resourceGroup.ts';
import type { GroupClaim } from '../../store/store.ts';

/** A group that a resource declares. */
export interface OwnedGroup {
  readonly claim: GroupClaim;
  readonly row: ResourceGroupRow;
  readonly path: string;
  /** For messages. */
  readonly title: string;
}

/** Whose the groups of a database are, as its rows and the claims of resources were at one time. */
export class GroupOwners {
  readonly rows: readonly ResourceGroupRow[];
  readonly #claims: readonly GroupClaim[];
  readonly #paths = new Map<string, ReadonlyMap<number, string>>();

  /** @param claims of this database */
  constructor(rows: readonly ResourceGroupRow[], claims: readonly GroupClaim[]) {
    this.rows = rows;
    this.#claims = claims;
  }

  /** The group of an id where a resource declares it; null: none does, or there is no such group. */
  of(id: number): OwnedGroup | null {
    const row = this.row(id);
    if (row === null || row.environment === null) return null;
    const { environment } = row;
    const path = this.#pathsIn(environment).get(id);
    const claim = this.#claims.find(
      (each) => each.environment === environment && path !== undefined && each.paths.includes(path),
    );
    if (claim === undefined || path === undefined) return null;
    return { claim, row, path, title: `The group ${path} of the environment ${environment}` };
  }

  row(id: number): ResourceGroupRow | null {
    return this.rows.find(({ resourceGroupId }) => resourceGroupId === id) ?? null;
  }

  /** The row of a path; null: there is none. */
  at(environment: string, path: string): ResourceGroupRow | null {
    for (const [id, each] of this.#pathsIn(environment)) if (each === path) return this.row(id);
    return null;
  }

  #pathsIn(environment: string): ReadonlyMap<number, string> {
    const present = this.#paths.get(environment);
    if (present !== undefined) return present;
    const paths = pathsOf(this.rows.filter((row) => row.environment === environment));
    this.#paths.set(environment, paths);
    return paths;
  }
}

/** A resource for messages. */
export function nameOfClaim({ namespace, name }: Pick<GroupClaim, 'namespace' | 'name'>): string {
  return `${RESOURCE_GROUP_CONFIGURATION} ${namespace}/${name}`;
}

/** Refusal of a change of what a resource declares. @param fix what to do instead */
export function declaredBy(claim: GroupClaim, title: string, field: string, fix = 'change it there'): GatewayError {
  return new GatewayError('EG_CONFLICT', `${title} belongs to the ${nameOfClaim(claim)}; ${fix}.`, { field });
}
