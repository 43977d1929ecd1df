import { isDeepStrictEqual } from 'node:util';
import { keyText } from '../model/resource.ts';
import type { CredentialsFinding, ForwardedHeadersFinding } from './engineCluster/clusterStatus.ts';
import type { ResourceOutcome } from './outcome.ts';

/** What the data plane saw of clusters and rules while it served requests, for their statuses. */
export class DataPlaneFindings {
  /** By `keyText`: the last failure of a rule at evaluation, and the generation that failed. */
  readonly #ruleFailures = new Map<string, { readonly generation: number; readonly message: string }>();
  /** By registry name. */
  readonly #forwardedHeaders = new Map<string, ForwardedHeadersFinding>();
  /** By registry name. */
  readonly #credentials = new Map<string, CredentialsFinding>();

  /** Notes how a cluster handles forwarded headers; null forgets it. False when that was known. */
  noteForwardedHeaders(cluster: string, finding: ForwardedHeadersFinding | null): boolean {
    return note(this.#forwardedHeaders, cluster, finding);
  }

  /** How a cluster handles forwarded headers; null while no query has shown it. */
  forwardedHeaders(cluster: string): ForwardedHeadersFinding | null {
    return this.#forwardedHeaders.get(cluster) ?? null;
  }

  /** Notes why credentials are not sent to a cluster; null forgets it. False when that was known. */
  noteCredentials(cluster: string, finding: CredentialsFinding | null): boolean {
    return note(this.#credentials, cluster, finding);
  }

  /** Why credentials are not sent to a cluster; null when nothing is wrong. */
  credentials(cluster: string): CredentialsFinding | null {
    return this.#credentials.get(cluster) ?? null;
  }

  /** Notes that a rule as it is now failed for a request. False when that was known. */
  noteRuleFailure({ key, resource }: ResourceOutcome, message: string): boolean {
    const { generation } = resource.metadata;
    const before = this.#ruleFailures.get(keyText(key));
    if (before?.generation === generation && before.message === message) return false;
    this.#ruleFailures.set(keyText(key), { generation, message });
    return true;
  }

  /** How a rule failed last, as it is now; null when it has not, or was changed since. */
  ruleFailure({ key, resource }: ResourceOutcome): string | null {
    const failure = this.#ruleFailures.get(keyText(key));
    return failure?.generation === resource.metadata.generation ? failure.message : null;
  }

  /** Drops the findings of a resource that was deleted. @param key as `keyText` has it */
  forget(key: string): void {
    this.#ruleFailures.delete(key);
  }
}

/** Keeps what was found of a cluster; null forgets it. False when that was known. */
function note<Finding>(findings: Map<string, Finding>, cluster: string, finding: Finding | null): boolean {
  if (isDeepStrictEqual(findings.get(cluster) ?? null, finding)) return false;
  if (finding === null) findings.delete(cluster);
  else findings.set(cluster, finding);
  return true;
}
