import type { IncomingMessage } from 'node:http';
import type { RequestHeaders } from '../headers/requestHeaders.ts';
import type { ClusterKeys } from '../ownership/clusterKeys.ts';
import type { RequestTrace } from '../tracing/requestTrace.ts';
import type { CertificateIdentities } from '../user/certificateIdentities.ts';

/** What the header lines of requests to clusters are made with. */
export interface ClusterHeadersDependencies {
  readonly headers: Pick<RequestHeaders, 'forCluster'>;
  /** Keys of clusters as path prefixes; null unless `routing.prefixSticky`. */
  readonly prefixes: ClusterKeys | null;
  /** How clusters recognise users of client certificates; null: they are sent what clients send. */
  readonly identities: CertificateIdentities | null;
  readonly settings: { readonly forwardedHeadersEnabled: boolean };
}

/** What header lines depend on at the cluster that a request goes to. */
export interface ClusterHop {
  /** Registry name; "" where it is not known. */
  readonly name: string;
  readonly proxyTo: string;
  /** Whether the answer may hold URLs of the gateway, as those of statement paths do. */
  readonly answersUrls: boolean;
  /** User of a client certificate in whose name the request is made; null for none. */
  readonly certificateUser: string | null;
  /** Null: traces are off. */
  readonly trace: RequestTrace | null;
}

/** Makes the header lines of requests to clusters: once for a request, and what differs by cluster for each of them. */
export class ClusterHeaders {
  readonly #dependencies: ClusterHeadersDependencies;

  constructor(dependencies: ClusterHeadersDependencies) {
    this.#dependencies = dependencies;
  }

  /** Lines for any cluster, names and values in turn; see `RequestHeaders.forCluster`. */
  forAny(request: IncomingMessage, isSubmission: boolean, set: Parameters<RequestHeaders['forCluster']>[2]) {
    return this.#dependencies.headers.forCluster(request, isSubmission, set);
  }

  /** Whether the lines of a request are not the same for every cluster. */
  differ({
    answersUrls,
    certificateUser,
    trace,
  }: Pick<ClusterHop, 'answersUrls' | 'certificateUser' | 'trace'>): boolean {
    const { prefixes, identities } = this.#dependencies;
    if (certificateUser !== null && identities !== null) return true;
    return trace !== null || (answersUrls && prefixes !== null);
  }

  /** The lines of `forAny` for one cluster: with its key as a path prefix, and the trace. */
  forOne(lines: readonly string[], hop: ClusterHop): readonly string[] {
    const { prefixes, identities, settings } = this.#dependencies;
    const { name, trace, certificateUser } = hop;
    const named = certificateUser === null ? lines : (identities?.named(lines, certificateUser, hop) ?? lines);
    const isPrefixed = prefixes !== null && hop.answersUrls && name !== '' && settings.forwardedHeadersEnabled;
    const prefixed = isPrefixed ? prefixes.withPrefix(named, name) : named;
    return trace === null ? prefixed : [...prefixed, ...trace.toCluster(name, hop.proxyTo)];
  }
}
