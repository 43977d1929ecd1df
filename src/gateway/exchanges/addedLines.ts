import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { ProductNames } from '../../model/names.ts';
import type { ChoiceStep } from '../../routing/choiceSteps.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { Handshake, HandshakeCookies } from '../pages/handshakeCookies.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { explainLine } from './explain.ts';

export interface AnsweringCluster {
  readonly cluster: { readonly name: string };
  /** How the request was routed; null for a follow-up, which belongs to its query's cluster. */
  readonly decision: GroupDecision | null;
  /** True if the cluster serves in place of the group that was decided on. */
  readonly fallback: boolean;
  /** Steps to this cluster; null if it belongs to the decided group. */
  readonly steps: readonly ChoiceStep[] | null;
  /** Reason and duration of the wait before admission; absent without a wait. */
  readonly admission?: string | null;
  /** The step of a login that the request was; null for all others. */
  readonly handshake: Handshake | null;
}

export interface ClusterAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly host: string;
}

export interface AddedLinesDependencies {
  readonly names: ProductNames;
  /** Cookies of OAuth2 logins; null unless they are used. */
  readonly handshakes: HandshakeCookies | null;
  readonly settings: Pick<DataPlaneSettings, 'explainHeader' | 'includeClusterHostInResponse'>;
}

/**
 * Makes the header lines that the gateway adds to responses of clusters: its cookies, and how the request was routed.
 */
export class AddedLines {
  readonly #dependencies: AddedLinesDependencies;

  constructor(dependencies: AddedLinesDependencies) {
    this.#dependencies = dependencies;
  }

  /** Whether any may be added to an answer; most settings add none. */
  areWanted(): boolean {
    const { handshakes, settings } = this.#dependencies;
    if (handshakes !== null) return true;
    const { explainHeader, includeClusterHostInResponse } = settings;
    return explainHeader || includeClusterHostInResponse;
  }

  of(proxied: ProxiedRequest, answer: ClusterAnswer, answering: AnsweringCluster): readonly string[] {
    const { names, handshakes, settings } = this.#dependencies;
    const { explainHeader, includeClusterHostInResponse } = settings;
    const { cluster, handshake } = answering;
    const isSubmission = proxied.kind === 'submission';
    const lines: string[] = [];
    if (handshakes !== null) {
      const ofLogin = handshakes.linesOfLogin(answer.headers, cluster.name);
      lines.push(...(ofLogin.length > 0 ? ofLogin : (handshake?.linesFor(cluster.name) ?? [])));
    }
    if (explainHeader) lines.push(...explainLine(names, answering));
    if (includeClusterHostInResponse && isSubmission) {
      lines.push('Set-Cookie', `${names.clusterHostCookie}=${answer.host}`);
    }
    return lines;
  }
}
