import type { ProductNames } from '../../model/names.ts';
import type { RuleRequest } from '../../rules/decision.ts';
import { parametersOf } from '../../rules/requestParameters.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import { withoutCookies } from '../headers/ownCookies.ts';

export interface ExternalRequestOptions {
  readonly names: ProductNames;
  /** `excludeHeaders`, lower-case, under the names of the configured product. */
  readonly excluded: ReadonlySet<string>;
  /** True if the client's headers are also sent as HTTP headers, for services that read them there. */
  readonly sendHttpHeaders: boolean;
  /** The gateway's cookies, which are never forwarded. */
  readonly ownCookies: ReadonlySet<string>;
}

/** A POST to the external rules service. */
export interface ExternalRequest {
  readonly body: string;
  readonly headers: string[];
}

/** Headers of this connection or this body, never the client's (RFC 9110 §7.6.1, §8). */
const ours = new Set([
  'accept',
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Builds a request to the external rules service (docs/rules.md#an-external-rules-service). Values that a servlet
 * returns as null are null.
 */
export function externalRequest(request: RuleRequest, options: ExternalRequestOptions): ExternalRequest {
  const { names } = options;
  const headers = new Map<string, { readonly name: string; value: string }>();
  const lines: string[] = ['Content-Type', 'application/json', 'Accept', 'application/json'];
  for (let index = 0; index < request.headers.length; index += 2) {
    const name = request.headers[index] as string;
    const line = request.headers[index + 1] as string;
    const key = name.toLowerCase();
    if (options.excluded.has(key)) continue;
    const value = key === 'cookie' ? withoutCookies(line, options.ownCookies) : line;
    if (key === 'cookie' && value === '') continue;
    for (const clusterName of names.isProtocolHeader(key) ? names.clusterNames(name) : [name]) {
      const header = headers.get(clusterName.toLowerCase());
      if (header === undefined) headers.set(clusterName.toLowerCase(), { name: clusterName, value });
      else header.value = `${header.value}, ${value}`;
      if (options.sendHttpHeaders && !ours.has(key)) lines.push(clusterName, value);
    }
  }
  const user =
    request.user === null
      ? null
      : {
          user: request.user.user,
          userInfo: request.user.userInfo === null ? null : JSON.stringify(request.user.userInfo),
        };
  const { isReference } = names;
  const query = request.queryProperties === null ? null : properties(request.queryProperties, isReference);
  // Trino Gateway has read the body before it reads parameters: form parameters are not included.
  const parameters = Object.fromEntries(parametersOf(isReference ? { ...request, formBody: null } : request));
  const body = {
    headers: Object.fromEntries([...headers.values()].map(({ name, value }) => [name, value])),
    remoteUser: request.remoteUser,
    method: request.method,
    requestURI: request.path,
    queryString: request.query,
    session: null,
    remoteAddr: request.remoteAddr,
    // No DNS lookup: a hanging resolver would delay queries.
    remoteHost: request.remoteAddr,
    parameterMap: parameters,
    ...(user === null ? {} : { [capital(names.requestUserObject)]: user }),
    ...(query === null ? {} : { [capital(names.queryPropertiesObject)]: query }),
    ...(isReference ? referenceFields(names, { user, query, parameters }) : {}),
  };
  return { body: JSON.stringify(body), headers: lines };
}

/** The fields under the names of Trino Gateway (docs/compatibility.md#external-rules-service). */
function referenceFields(
  names: ProductNames,
  {
    user,
    query,
    parameters,
  }: { readonly user: object | null; readonly query: object | null; readonly parameters: object },
): object {
  return {
    contentType: 'application/json',
    parameters,
    ...(user === null ? {} : { [names.requestUserObject]: user }),
    ...(query === null ? {} : { [names.queryPropertiesObject]: query }),
  };
}

/**
 * The query in the form of Trino Gateway (docs/compatibility.md#external-rules-service).
 * @param isReference true omits missing values, as Trino Gateway does, instead of null
 */
function properties(query: QueryProperties, isReference: boolean): object {
  const all = {
    body: query.body,
    queryType: query.queryType,
    resourceGroupQueryType: query.resourceGroupQueryType,
    tables: query.tables.map((parts) => parts.join('.')),
    defaultCatalog: query.defaultCatalog,
    defaultSchema: query.defaultSchema,
    catalogs: query.catalogs,
    schemas: query.schemas,
    catalogSchemas: query.catalogSchemas,
    isNewQuerySubmission: query.isNewQuerySubmission,
    isQueryParsingSuccessful: query.errorMessage === null,
    errorMessage: query.errorMessage,
  };
  return isReference ? Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null)) : all;
}

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
