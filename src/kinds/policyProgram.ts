import { isDeepStrictEqual } from 'node:util';
import { type Problem, problemText } from '../model/errors.ts';
import { claimNames, keyText, type Resource, registryNameOf } from '../model/resource.ts';
import { type GrantRejection, openTenancy, type Tenancy, withholdsName } from '../rules/tenancy.ts';
import {
  type Acceptance,
  liveOf,
  nameConflict,
  notAccepted,
  notGranted,
  outcomeOf,
  type ResourceOutcome,
} from './outcome.ts';
import type { KindProgram, RoutingDraft } from './resourceKind.ts';

interface Version<Compiled> {
  readonly spec: unknown;
  readonly key: string;
  readonly compiled: Compiled;
}

/**
 * Cache of results by uid: returns the same object while the spec is unchanged. A resource with a new status, or read
 * again, is another object with the same spec.
 */
export class PolicyVersions<Compiled> {
  readonly #versions = new Map<string, Version<Compiled>>();

  /** @param key what else it is made of: where that changes, it is made again */
  of({ metadata, spec }: Resource, key: string, make: () => Compiled): Compiled {
    const before = this.#versions.get(metadata.uid);
    const isSame = before?.key === key && (before.spec === spec || isDeepStrictEqual(before.spec, spec));
    if (isSame) return before.compiled;
    const version = { spec, key, compiled: make() };
    this.#versions.set(metadata.uid, version);
    return version.compiled;
  }

  keep(uids: ReadonlySet<string>): void {
    for (const uid of this.#versions.keys()) if (!uids.has(uid)) this.#versions.delete(uid);
  }
}

/** The policy of a resource that declares a valid one, and whether it is accepted. */
interface Verdict<Policy> {
  readonly own: Policy | null;
  readonly acceptance: Acceptance;
}

/** Outcome of a resource that declares a policy. */
export interface PolicyOutcome<Policy> extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** The active policy: of this version or, while it is not accepted or suspended, of the last good one; null: none. */
  readonly policy: Policy | null;
}

/** Parts of a kind of policies. */
export interface PolicyKind<Policy extends object, Outcome extends PolicyOutcome<Policy>> {
  /** True if only one resource may have a name. */
  readonly hasUniqueNames: boolean;
  /** True if the last good version stays active while `spec.suspend` is true; false: none is. */
  readonly isFrozenBySuspension: boolean;
  /** The acceptance of a valid resource. */
  readonly acceptance: Acceptance;
  problems(spec: unknown, name: string): readonly Problem[];
  /** The policy of a valid resource. */
  policy(resource: Resource, name: string, tenancy: Tenancy): Policy;
  /** Reason that the namespace of a valid resource may not declare it, or null. */
  rejection(resource: Resource, policy: Policy, tenancy: Tenancy): GrantRejection | null;
  /** Returns what completes outcomes; `declared` is the policy of the present version if it is valid, else the active one. */
  completer(draft: RoutingDraft): (outcome: PolicyOutcome<Policy>, declared: Policy | null) => Outcome;
  /** Adds the active policies to the routing table. */
  publish(policies: readonly Policy[], draft: RoutingDraft): void;
}

/** Works out policies, of which the last good one stays active while a resource is not valid or suspended. */
export class PolicyProgram<Policy extends object, Outcome extends PolicyOutcome<Policy>> implements KindProgram {
  readonly #kind: PolicyKind<Policy, Outcome>;
  readonly #versions = new PolicyVersions<Verdict<Policy>>();
  /** Last active policies by uid, with their names. */
  readonly #lastGood = new Map<string, { readonly name: string; readonly policy: Policy }>();

  constructor(kind: PolicyKind<Policy, Outcome>) {
    this.#kind = kind;
  }

  restore(resources: readonly Resource[]): void {
    for (const resource of resources) {
      const name = registryNameOf(resource);
      const { own } = this.#judge(resource, name, openTenancy);
      if (own !== null) this.#lastGood.set(resource.metadata.uid, { name, policy: own });
    }
  }

  refresh(resources: readonly Resource[], draft: RoutingDraft): ReadonlyMap<string, Outcome> {
    const live = liveOf(resources);
    const { tenancy } = draft;
    // A name that a namespace may not use stays free for others.
    const claimants = live.filter((each) => tenancy.nameRejectionOf(each) === null);
    const holders = this.#kind.hasUniqueNames ? claimNames(claimants) : new Map<string, Resource>();
    const complete = this.#kind.completer(draft);
    const outcomes = new Map(
      live.map((resource) => {
        const { outcome, declared } = this.#outcome(resource, holders, tenancy);
        return [keyText(outcome.key), complete(outcome, declared)];
      }),
    );
    const uids = new Set(live.map(({ metadata }) => metadata.uid));
    this.#versions.keep(uids);
    for (const uid of this.#lastGood.keys()) if (!uids.has(uid)) this.#lastGood.delete(uid);
    const policies = [...outcomes.values()].map(({ policy }) => policy).filter((policy) => policy !== null);
    this.#kind.publish(policies, draft);
    return outcomes;
  }

  #outcome(resource: Resource, holders: ReadonlyMap<string, Resource>, tenancy: Tenancy) {
    const kind = this.#kind;
    const { uid, namespace } = resource.metadata;
    const base = outcomeOf(resource);
    const { registryName: name, suspended } = base;
    const isWithheld = kind.hasUniqueNames && tenancy.nameRejectionOf(resource) !== null;
    const holder = (isWithheld ? null : holders.get(name)) ?? resource;
    const isHolder = holder === resource;
    const { own, acceptance } = isHolder
      ? this.#judge(resource, name, tenancy)
      : { own: null, acceptance: nameConflict(resource, holder) };
    const last = this.#lastGood.get(uid);
    const isSameName = !this.#kind.hasUniqueNames || last?.name === name;
    // A policy ends with its grant.
    const isGranted = last !== undefined && kind.rejection(resource, last.policy, tenancy) === null;
    const lastGood = isHolder && isSameName && isGranted ? last.policy : null;
    const isLifted = suspended && !kind.isFrozenBySuspension;
    const policy = isLifted ? null : own !== null && !suspended ? own : lastGood;
    if (policy !== null) this.#lastGood.set(uid, { name, policy });
    const isPrevious = own === null && lastGood !== null;
    const message = `${acceptance.message}${isPrevious ? '; the last good version stays in force' : ''}`;
    // Nothing may be known by the name that it asks for.
    const registryName = withholdsName(acceptance.reason) ? `${namespace}/${resource.metadata.name}` : name;
    const outcome: PolicyOutcome<Policy> = { ...base, registryName, acceptance: { ...acceptance, message }, policy };
    return { outcome, declared: own ?? policy };
  }

  #judge(resource: Resource, name: string, tenancy: Tenancy): Verdict<Policy> {
    const kind = this.#kind;
    return this.#versions.of(resource, `${name}/${tenancy.key}`, () => {
      const problems = kind.problems(resource.spec, name);
      if (problems.length > 0) return { own: null, acceptance: notAccepted('InvalidSpec', problemText(problems)) };
      const policy = kind.policy(resource, name, tenancy);
      const rejection = kind.rejection(resource, policy, tenancy);
      return rejection === null
        ? { own: policy, acceptance: kind.acceptance }
        : { own: null, acceptance: notGranted(rejection) };
    });
  }
}
