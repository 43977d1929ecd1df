import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import type { ProductNames } from '../../model/names.ts';
import { headerValues, isHeader } from '../../model/rawHeaders.ts';
import { type GroupDecision, setHeadersOf } from '../../routing/groupDecision.ts';
import { type BodyStart, hasBody } from '../bodies/body.ts';
import { BodyRelay } from '../bodies/bodyRelay.ts';
import type { RequestBodies } from '../bodies/requestBodies.ts';
import type { DataPlaneSettings } from '../dataPlaneSettings.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { headerText } from '../user/clusterTokens.ts';
import { holdsServiceAccountToken } from '../user/kubernetesTokens.ts';
import type { ClusterHeaders } from './clusterHeaders.ts';

export interface OutgoingRequest {
  readonly method: string;
  /** Path and query string as the client sent them. */
  readonly target: string;
  readonly headers: readonly string[];
  readonly body: Buffer | Readable | null;
  /** Milliseconds until the head of the response must be there (`routing.asyncTimeout`). */
  readonly headersTimeout: number;
}

export interface Destination {
  /** Registry name; "" where it is not known. */
  readonly name: string;
  readonly proxyTo: string;
}

export interface OutgoingRequestsDependencies {
  readonly names: ProductNames;
  /** Audiences of service account tokens that clusters do not get; null: they get all. */
  readonly heldAudiences: readonly string[] | null;
  readonly clusterHeaders: ClusterHeaders;
  readonly bodies: RequestBodies;
  readonly settings: Pick<DataPlaneSettings, 'maxBodySize' | 'asyncTimeout'>;
}

export class OutgoingRequests {
  readonly #dependencies: OutgoingRequestsDependencies;

  constructor(dependencies: OutgoingRequestsDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * A submission as any cluster could get it.
   * @param body what was read of it; the rest follows from the client
   * @param onTooLarge called if the body is too large
   */
  submission(
    proxied: ProxiedRequest,
    decision: GroupDecision,
    body: BodyStart,
    onTooLarge: () => void,
  ): OutgoingRequest {
    const content = body.complete ? body.bytes : this.#relay(proxied, body.bytes, onTooLarge);
    return this.#make(proxied, true, decision, content);
  }

  /**
   * Any other request as any cluster could get it, its body streamed.
   * @param decision how it was routed; null for a follow-up
   * @param onTooLarge called if the body is too large
   */
  streamed(proxied: ProxiedRequest, decision: GroupDecision | null, onTooLarge: () => void): OutgoingRequest {
    return this.#make(
      proxied,
      false,
      decision,
      hasBody(proxied.request) ? this.#relay(proxied, null, onTooLarge) : null,
    );
  }

  /** Whether there is memory for streaming the body of a request, which is taken then. */
  mayStream({ request, response }: ProxiedRequest): boolean {
    return this.#dependencies.bodies.relay(request, response);
  }

  /**
   * The request as one cluster gets it: a token of the user, the gateway's prefix, the trace.
   * @param isSubmission true for a new query
   */
  to(
    { name, proxyTo }: Destination,
    outgoing: OutgoingRequest,
    proxied: ProxiedRequest,
    isSubmission: boolean,
  ): OutgoingRequest {
    const { clusterHeaders } = this.#dependencies;
    const { trace, certificateUser, clusterKey, request } = proxied;
    const takesSpooled = isSubmission && clusterHeaders.takesSpooled(request);
    const hop = { trace, certificateUser, clusterKey, takesSpooled };
    if (!clusterHeaders.differ(hop)) return outgoing;
    return { ...outgoing, headers: clusterHeaders.forOne(outgoing.headers, { ...hop, name, proxyTo }) };
  }

  #make(
    { request, method, rawTarget, forwardedUser }: ProxiedRequest,
    isSubmission: boolean,
    decision: GroupDecision | null,
    body: OutgoingRequest['body'],
  ): OutgoingRequest {
    const { clusterHeaders, settings } = this.#dependencies;
    const set = decision === null ? null : setHeadersOf(decision);
    return {
      method,
      target: rawTarget,
      headers: this.#withoutHeldToken(
        request,
        clusterHeaders.forAny(
          request,
          isSubmission,
          forwardedUser === undefined ? set : this.#withUser(forwardedUser, set),
        ),
      ),
      body,
      headersTimeout: settings.asyncTimeout,
    };
  }

  /** The lines without a token of a service account that is the gateway's alone. */
  #withoutHeldToken({ rawHeaders }: IncomingMessage, lines: string[]): string[] {
    const { heldAudiences } = this.#dependencies;
    if (heldAudiences === null) return lines;
    const values = headerValues(rawHeaders, 'authorization');
    if (!values.some((value) => holdsServiceAccountToken(value, heldAudiences))) return lines;
    return lines.flatMap((name, index) =>
      index % 2 === 0 && !isHeader(name, 'authorization') ? [name, lines[index + 1] as string] : [],
    );
  }

  /** The user's name in addition to the header lines that rules set, which count where they name a user themselves. */
  #withUser(user: string, set: Readonly<Record<string, string>> | null): Readonly<Record<string, string>> {
    const { names } = this.#dependencies;
    const stated = new Set(Object.keys(set ?? {}).map((name) => names.ownHeader(name).toLowerCase()));
    const own = [names.header('User'), names.header('Original-User')].filter((name) => !stated.has(name.toLowerCase()));
    return { ...Object.fromEntries(own.map((name) => [name, headerText(user)])), ...set };
  }

  #relay({ request }: ProxiedRequest, start: Buffer | null, onTooLarge: () => void): BodyRelay {
    return new BodyRelay(request, start, this.#dependencies.settings.maxBodySize, onTooLarge);
  }
}
