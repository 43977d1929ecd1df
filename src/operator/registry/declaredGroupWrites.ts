import type { ResourceOutcome } from '../../kinds/outcome.ts';
import { type GroupsOutcome, isGroupsOutcome } from '../../kinds/resourceGroupConfiguration/groupsOutcome.ts';
import { resourceGroupConfiguration } from '../../kinds/resourceGroupConfiguration/kind.ts';
import {
  RESOURCE_GROUP_CONFIGURATION,
  type ResourceGroupConfigurationSpec,
} from '../../kinds/resourceGroupConfiguration/spec.ts';
import { groupsProblems } from '../../kinds/resourceGroupConfiguration/validation.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyText, type ResourceKey } from '../../model/resource.ts';
import type { ResourceGroupStore } from '../../store/resourceGroupStore.ts';
import type { SchemaStores } from '../../store/schemaStores.ts';
import type { GroupClaim, GroupClaimRepository } from '../../store/store.ts';
import type { Controller } from '../reconcile/controller.ts';
import type { ResourceReference } from './appliedChange.ts';
import type { GroupApplier } from './groupApplier.ts';
import { declaredBy, nameOfClaim } from './groupOwners.ts';
import { SerialWork } from './serialWork.ts';
import { SpecWrites, type SpecWritesOptions } from './specWrites.ts';
import { writableGroups } from './writableGroups.ts';

/** How a call writes groups that a resource declares. */
export interface GroupWriteContext {
  /** Takes fields over from other managers. */
  readonly force: boolean;
  /** Called before a write of this call resolves, with the resource that it changed. Must not throw. */
  onWrite(resource: ResourceReference): void;
}

/** The tables of resource groups as calls use them (docs/resource-groups.md#by-rest). */
export interface GroupTables {
  /**
   * As `SchemaStores.use`. A change of what a resource declares goes into that resource, and is in the tables when it resolves;
   * it rejects as `SpecWrites.change` does, with EG_MALFORMED where the resource would not be valid, with EG_CONFLICT where
   * it can only be made there.
   * @param context left out where nothing is written
   */
  use<T>(
    database: string | null,
    work: (store: ResourceGroupStore) => Promise<T>,
    context?: GroupWriteContext,
  ): Promise<T>;
}

/** A change of what a resource declares. */
export interface DeclaredChange {
  /** Of the resource, in the database that the call is about. */
  readonly claim: GroupClaim;
  /** What changes, for messages. */
  readonly title: string;
  /** Field of the call that names it. */
  readonly field: string;
  /** Answers the spec as it is to be; called again where the resource was changed meanwhile. Null: it does not have what changes. */
  readonly edit: (spec: ResourceGroupConfigurationSpec) => ResourceGroupConfigurationSpec | null;
}

/** What became of a change: the resource has it. */
export interface ChangeResult {
  readonly warnings: readonly string[];
  /** Whether the database is unavailable, so that the tables follow later, as a warning says. */
  readonly isPending: boolean;
}

export interface DeclaredGroupWritesOptions extends SpecWritesOptions {
  readonly controller: SpecWritesOptions['controller'] & Pick<Controller, 'outcomes'>;
  readonly stores: SchemaStores;
  readonly claims: Pick<GroupClaimRepository, 'all'>;
  readonly applier: Pick<GroupApplier, 'apply' | 'targets'>;
  /** Name of the gateway's own database; null: it has none. */
  readonly ownDatabase: () => string | null;
}

const readOnly: GroupWriteContext = { force: false, onWrite: () => undefined };

/** Writes of the tables of resource groups by REST: what a resource declares is changed in the resource, all else in the tables. */
export class DeclaredGroupWrites implements GroupTables {
  readonly #options: DeclaredGroupWritesOptions;
  readonly #writes: SpecWrites;
  /** Changes of one resource come one after the other, so that none of them has to be decided again and again. */
  readonly #work = new SerialWork();

  constructor(options: DeclaredGroupWritesOptions) {
    this.#options = options;
    this.#writes = new SpecWrites(resourceGroupConfiguration, options);
  }

  async use<T>(
    database: string | null,
    work: (store: ResourceGroupStore) => Promise<T>,
    context: GroupWriteContext = readOnly,
  ): Promise<T> {
    const { stores, claims, ownDatabase } = this.#options;
    const place = database === ownDatabase() ? null : database;
    return await stores.use(database, (store) =>
      work(
        writableGroups(
          store,
          async () => (await claims.all()).filter((claim) => claim.database === place),
          (change) => this.#change(change, context),
        ),
      ),
    );
  }

  async #change(change: DeclaredChange, { force, onWrite }: GroupWriteContext): Promise<ChangeResult> {
    const { namespace, name } = change.claim;
    const key: ResourceKey = { kind: RESOURCE_GROUP_CONFIGURATION, namespace, name };
    return await this.#work.run(keyText(key), async () => {
      this.#options.controller.refreshNow();
      this.#requireInForce(this.#outcome(key), change);
      const { resource } = await this.#writes.change(key, ({ spec }) => edited(spec, change), { force });
      onWrite(resource);
      return await this.#apply(key, change.claim);
    });
  }

  #outcome(key: ResourceKey): ResourceOutcome | undefined {
    return this.#options.controller.outcomes.get(keyText(key));
  }

  /** What is not in force now may be otherwise in the tables than in the resource. */
  #requireInForce(outcome: ResourceOutcome | undefined, { claim, title, field }: DeclaredChange): void {
    if (outcome === undefined || !isGroupsOutcome(outcome)) {
      throw declaredBy(claim, title, field, 'that was deleted, and its groups go with it');
    }
    if (outcome.declared !== null) return;
    const fix = outcome.paused
      ? 'that is paused; remove its annotation enginegateway.dev/paused first'
      : `that is not accepted: ${outcome.acceptance.message}`;
    throw declaredBy(claim, title, field, fix);
  }

  /** Has the tables follow a written resource. */
  async #apply(key: ResourceKey, { database, environment }: GroupClaim): Promise<ChangeResult> {
    const { applier } = this.#options;
    const outcome = this.#outcome(key);
    const isWritten = `The change is in the ${nameOfClaim(key)}, and not in the tables`;
    if (outcome === undefined || !isGroupsOutcome(outcome) || outcome.declared === null) {
      throw new GatewayError('EG_CONFLICT', `${isWritten}: ${reasonOf(outcome)}`);
    }
    let thrown: unknown = null;
    try {
      await applier.apply(outcome, null);
    } catch (error) {
      thrown = error;
    }
    const states = applier.targets.of(key) ?? [];
    const own = states.find((state) => state.database === database && state.environment === environment);
    if (own === undefined) throw thrown ?? new GatewayError('EG_CONFLICT', `${isWritten}: it was deleted meanwhile`);
    if (own.failure !== null) {
      const message = `${isWritten} yet: ${own.failure.message}. It follows by itself; do not send it again.`;
      if (own.failure.reason !== 'DatabaseUnavailable')
        throw new GatewayError('EG_CONFLICT', message, { cause: thrown });
      return { warnings: [message], isPending: true };
    }
    const warnings = states.flatMap(({ database: other, failure }) =>
      failure === null || other === database
        ? []
        : [`The ${nameOfClaim(key)} is for ${other ?? "the gateway's own database"} as well: ${failure.message}`],
    );
    return { warnings, isPending: false };
  }
}

function edited(
  spec: Readonly<Record<string, unknown>>,
  { claim, title, field, edit }: DeclaredChange,
): Readonly<Record<string, unknown>> {
  // Of one that is in force; a later version is checked as changed.
  const wanted = edit(spec as unknown as ResourceGroupConfigurationSpec);
  if (wanted === null) {
    throw declaredBy(claim, title, field, 'its spec does not have it any more, and the tables are about to follow');
  }
  const [problem] = groupsProblems(wanted);
  if (problem === undefined) return { ...wanted };
  const message = `The ${nameOfClaim(claim)} would not be valid: ${problem.field} ${problem.message}`;
  throw new GatewayError('EG_MALFORMED', message, { field: problem.field });
}

function reasonOf(outcome: ResourceOutcome | undefined): string {
  if (outcome === undefined || !isGroupsOutcome(outcome)) return 'it was deleted meanwhile';
  return (outcome satisfies GroupsOutcome).acceptance.message;
}
