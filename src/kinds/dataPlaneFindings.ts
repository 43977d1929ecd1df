import { isDeepStrictEqual } from 'node:util';
import { type Kind, keyText } from '../model/resource.ts';
import { ENGINE_CLUSTER } from './engineCluster/spec.ts';
import { ENGINE_TENANT } from './engineTenant/spec.ts';
import type { ResourceOutcome } from './outcome.ts';
import { ROUTING_RULE } from './routingRule/spec.ts';

export interface ForwardedHeadersFinding {
  readonly ok: boolean;
  readonly message: string;
}

/** Reason that a check's credentials are not sent to a cluster. */
export interface CredentialsFinding {
  readonly reason: string;
  readonly message: string;
}

type Outcomes = { readonly of: (kind: Kind) => readonly ResourceOutcome[] };

/** Observations of clusters and rules by this replica's data plane, for their statuses. */
export class DataPlaneFindings {
  /** By `keyText`: the last failure of a rule or tenant at evaluation, and the generation that failed. */
  readonly #failures = new Map<string, { readonly generation: number; readonly message: string }>();
  /** By cluster, from its first query on. */
  readonly forwardedHeaders = new Map<string, ForwardedHeadersFinding>();
  /** By cluster. */
  readonly credentials = new Map<string, CredentialsFinding>();

  /** Notes that a rule as it is now failed for a request. @returns keys of the resources whose status that changes */
  noteRuleFailure(rule: string, message: string, outcomes: Outcomes): readonly string[] {
    return this.#note(outcomesOfName(outcomes, ROUTING_RULE, rule), message);
  }

  /** Notes the first query that tenants as they are now match together. @returns as `noteRuleFailure` */
  noteTenantConflict(tenants: readonly string[], outcomes: Outcomes): readonly string[] {
    const message = `spec.decides of the tenants ${tenants.join(', ')} match the same query, which none of them decides`;
    const isNew = (outcome: ResourceOutcome) => this.failure(outcome) === null;
    return this.#note(tenants.flatMap((name) => outcomesOfName(outcomes, ENGINE_TENANT, name)).filter(isNew), message);
  }

  #note(outcomes: readonly ResourceOutcome[], message: string): readonly string[] {
    const changed = outcomes.filter((outcome) => this.failure(outcome) !== message);
    for (const { key, resource } of changed)
      this.#failures.set(keyText(key), { generation: resource.metadata.generation, message });
    return changed.map(({ key }) => keyText(key));
  }

  /** The last failure of the current version of a rule or tenant, or null. */
  failure({ key, resource }: ResourceOutcome): string | null {
    const failure = this.#failures.get(keyText(key));
    return failure?.generation === resource.metadata.generation ? failure.message : null;
  }

  /** Drops the findings of a resource that was deleted. @param key as `keyText` has it */
  forget(key: string): void {
    this.#failures.delete(key);
  }
}

/** Notes a finding about a cluster; null forgets it. @returns keys of the resources whose status that changes */
export function noteFinding<Finding>(
  findings: Map<string, Finding>,
  cluster: string,
  finding: Finding | null,
  outcomes: Outcomes,
): readonly string[] {
  if (isDeepStrictEqual(findings.get(cluster) ?? null, finding)) return [];
  if (finding === null) findings.delete(cluster);
  else findings.set(cluster, finding);
  return keysOfCluster(outcomes, cluster);
}

/** Keys of the resources whose status depends on a cluster, by its registry name. */
export function keysOfCluster(outcomes: Outcomes, cluster: string): string[] {
  return outcomesOfName(outcomes, ENGINE_CLUSTER, cluster).map(({ key }) => keyText(key));
}

function outcomesOfName(outcomes: Outcomes, kind: Kind, name: string): readonly ResourceOutcome[] {
  return outcomes.of(kind).filter(({ registryName }) => registryName === name);
}
