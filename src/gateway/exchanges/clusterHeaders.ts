import type { IncomingMessage } from 'node:http';
import type { ProductNames } from '../../model/names.ts';
import { firstHeader } from '../../model/rawHeaders.ts';
import type { RequestHeaders } from '../headers/requestHeaders.ts';
import type { ClusterKeys } from '../ownership/clusterKeys.ts';
import type { RequestTrace } from '../tracing/requestTrace.ts';
import type { CertificateIdentities } from '../user/clusterTokens.ts';

export interface ClusterHeadersDependencies {
  readonly headers: Pick<RequestHeaders, 'forCluster'>;
  readonly names: ProductNames;
  /** Keys of clusters as path prefixes. */
  readonly keys: ClusterKeys;
  /** How clusters recognise users of client certificates; null: they are sent what clients send. */
  readonly identities: CertificateIdentities | null;
  readonly settings: { readonly forwardedHeadersEnabled: boolean };
}

export interface ClusterHop {
  /** Registry name; "" where it is not known. */
  readonly name: string;
  readonly proxyTo: string;
  /** Key of a cluster in the client's URL, or null. */
  readonly clusterKey: string | null;
  /** True if the client of a submission takes spooled results. */
  readonly takesSpooled: boolean;
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

  /** True if the client of a submission takes spooled results, whose segments need the key of their cluster. */
  takesSpooled({ rawHeaders }: IncomingMessage): boolean {
    const { names, settings } = this.#dependencies;
    return (
      settings.forwardedHeadersEnabled && firstHeader(rawHeaders, names.headerKey('Query-Data-Encoding')) !== undefined
    );
  }

  /** True if the lines of a request are not the same for every cluster. */
  differ({ clusterKey, takesSpooled, certificateUser, trace }: Omit<ClusterHop, 'name' | 'proxyTo'>): boolean {
    if (certificateUser !== null && this.#dependencies.identities !== null) return true;
    return trace !== null || takesSpooled || clusterKey !== null;
  }

  /** The lines of `forAny` for one cluster: with its key as a path prefix if its URLs need it, and the trace. */
  forOne(lines: readonly string[], hop: ClusterHop): readonly string[] {
    const { keys, identities, settings } = this.#dependencies;
    const { name, trace, certificateUser, clusterKey, takesSpooled } = hop;
    const named = certificateUser === null ? lines : (identities?.named(lines, certificateUser, hop) ?? lines);
    const isKeyed = clusterKey !== null || (takesSpooled && keys.isOneOfSeveral(name));
    const prefixed = isKeyed && name !== '' && settings.forwardedHeadersEnabled ? keys.withPrefix(named, name) : named;
    return trace === null ? prefixed : [...prefixed, ...trace.toCluster(name, hop.proxyTo)];
  }
}
