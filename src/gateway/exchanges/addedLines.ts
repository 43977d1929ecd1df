import type { IncomingHttpHeaders } from 'undici/types/header.js';
import type { ProductNames } from '../../model/names.ts';
import type { ChoiceStep } from '../../routing/choiceSteps.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { Handshake, HandshakeCookies } from '../pages/handshakeCookies.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { explainLine } from './explain.ts';

/** The cluster that answers a request, and why it does. */
export interface AnsweringCluster {
  readonly cluster: { readonly name: string };
  /** How the request was routed; null for a follow-up, which belongs to its query's cluster. */
  readonly decision: GroupDecision | null;
  /** Whether the cluster serves in place of the group that was decided on. */
  readonly fallback: boolean;
  /** How it came to this cluster; null where it is one of the group that was decided on. */
  readonly steps: readonly ChoiceStep[] | null;
  /** What it waited for before it was admitted, and how long; left out where it did not wait. */
  readonly admission?: string | null;
  /** The step of a login that the request was; null for all others. */
  readonly handshake: Handshake | null;
}

/** The answer that lines are added to. */
export interface ClusterAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** Name of the host that it came from. */
  readonly host: string;
}

/** What the gateway adds to answers with. */
export interface AddedLinesDependencies {
  readonly names: ProductNames;
  /** Cookies of OAuth2 logins; null unless they are used. */
  readonly handshakes: HandshakeCookies | null;
  readonly settings: Pick<DataPlaneSettings, 'explainHeader' | 'includeClusterHostInResponse'>;
}

/** Makes the header lines that the gateway adds to answers of clusters: its cookies, and how the request was routed. */
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

  /** The lines of an answer, names and values in turn. */
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
