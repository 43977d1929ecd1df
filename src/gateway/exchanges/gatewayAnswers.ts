import type { Refusal } from '../../routing/refusal.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';

/** Responses that the gateway gives itself, and the note of each request's end. */
export interface GatewayAnswers {
  refuse(proxied: ProxiedRequest, refusal: Refusal): void;
  /**
   * Answers 502 as text (docs/compatibility.md#proxying).
   * @param answered whether the cluster began a response
   */
  failure(proxied: ProxiedRequest, error: Error, answered: boolean): void;
  /**
   * Notes the end of a request for metrics and trace; only the first time counts.
   * @param status of the client's response; 0 when the client went away
   * @param clusterStatus of the cluster's response; 0 for none
   * @param cluster registry name of the cluster that responded; null for none
   */
  noteEnd(proxied: ProxiedRequest, status: number, clusterStatus: number, cluster: string | null): void;
}
