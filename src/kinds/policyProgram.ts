import { isDeepStrictEqual } from 'node:util';
import { claimNames } from '../model/nameClaims.ts';
import { keyText, type Resource } from '../model/resource.ts';
import { registryNameOf } from '../model/resourceName.ts';
import type { KindProgram, RoutingDraft } from './kindProgram.ts';
import { type Acceptance, liveOf, nameConflict, outcomeOf, type ResourceOutcome } from './outcome.ts';

interface Version<Made> {
  readonly spec: unknown;
  readonly key: string;
  readonly made: Made;
}

/**
 * Cache of results by uid: returns the same object while the spec is unchanged. A resource with a new status, or read
 * again, is another object with the same spec.
 */
export class PolicyVersions<Made> {
  readonly #versions = new Map<string, Version<Made>>();

  /** @param key what else it is made of: where that changes, it is made again */
  of({ metadata, spec }: Resource, key: string, make: () => Made): Made {
    const before = this.#versions.get(metadata.uid);
    const isSame = before?.key === key && (before.spec === spec || isDeepStrictEqual(before.spec, spec));
    if (isSame) return before.made;
    const version = { spec, key, made: make() };
    this.#versions.set(metadata.uid, version);
    return version.made;
  }

  keep(uids: ReadonlySet<string>): void {
    for (const uid of this.#versions.keys()) if (!uids.has(uid)) this.#versions.delete(uid);
  }
}

/** A policy with its name, or the reason that a resource declares none. */
export type Judged<Policy> =
  | { readonly policy: Policy; readonly acceptance: Acceptance }
  | { readonly acceptance: Acceptance };

/** Outcome of a resource that declares a policy. */
export interface PolicyOutcome<Policy> extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** The active policy: of this version or, while it is not accepted or paused, of the last good one; null: none. */
  readonly policy: Policy | null;
}

/** Works out policies, of which the last good one stays active while a resource is not valid or paused. */
export abstract class PolicyProgram<Policy extends object, Outcome extends PolicyOutcome<Policy>>
  implements KindProgram
{
  readonly #versions = new PolicyVersions<Judged<Policy>>();
  /** Last active policies by uid, with their names. */
  readonly #lastGood = new Map<string, { readonly name: string; readonly policy: Policy }>();
  /** True if only one resource may have a name. */
  protected abstract readonly hasUniqueNames: boolean;

  /** Judges a spec. */
  protected abstract judge(resource: Resource, name: string): Judged<Policy>;

  /** Returns what completes outcomes; `declared` is the policy of the present version if it is valid, else the active one. */
  protected abstract completer(
    draft: RoutingDraft,
  ): (outcome: PolicyOutcome<Policy>, declared: Policy | null) => Outcome;

  /** Adds the active policies to the routing table. */
  protected abstract publish(policies: readonly Policy[], draft: RoutingDraft): void;

  restore(resources: readonly Resource[]): void {
    for (const resource of resources) {
      const name = registryNameOf(resource);
      const judged = this.#judge(resource, name);
      if ('policy' in judged) this.#lastGood.set(resource.metadata.uid, { name, policy: judged.policy });
    }
  }

  refresh(resources: readonly Resource[], draft: RoutingDraft): ReadonlyMap<string, Outcome> {
    const live = liveOf(resources);
    const holders = this.hasUniqueNames ? claimNames(live) : new Map<string, Resource>();
    const outcomes = new Map<string, Outcome>();
    const complete = this.completer(draft);
    for (const resource of live) {
      const { outcome, declared } = this.#outcome(resource, holders.get(registryNameOf(resource)) ?? resource);
      outcomes.set(keyText(outcome.key), complete(outcome, declared));
    }
    const uids = new Set(live.map(({ metadata }) => metadata.uid));
    this.#versions.keep(uids);
    for (const uid of this.#lastGood.keys()) if (!uids.has(uid)) this.#lastGood.delete(uid);
    this.publish(
      [...outcomes.values()].flatMap(({ policy }) => (policy === null ? [] : [policy])),
      draft,
    );
    return outcomes;
  }

  #outcome(resource: Resource, holder: Resource) {
    const { uid } = resource.metadata;
    const base = outcomeOf(resource);
    const { registryName: name, paused } = base;
    const isHolder = holder === resource;
    const judged: Judged<Policy> = isHolder
      ? this.#judge(resource, name)
      : { acceptance: nameConflict(resource, holder) };
    const last = this.#lastGood.get(uid);
    const lastGood = isHolder && (!this.hasUniqueNames || last?.name === name) ? (last?.policy ?? null) : null;
    const own = 'policy' in judged ? judged.policy : null;
    const policy = own !== null && !paused ? own : lastGood;
    if (policy !== null) this.#lastGood.set(uid, { name, policy });
    const { acceptance } = judged;
    const isKept = own === null && lastGood !== null;
    const message = `${acceptance.message}${isKept ? '; the last good version stays in force' : ''}`;
    const outcome: PolicyOutcome<Policy> = { ...base, acceptance: { ...acceptance, message }, policy };
    return { outcome, declared: own ?? policy };
  }

  #judge(resource: Resource, name: string): Judged<Policy> {
    return this.#versions.of(resource, name, () => this.judge(resource, name));
  }
}
