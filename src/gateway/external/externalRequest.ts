import type { ProductNames } from '../../model/names.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import type { RuleRequest } from '../../rules/decision.ts';
import { parametersOf } from '../../rules/requestParameters.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import { withoutCookies } from '../headers/ownCookies.ts';

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
 * @param excluded `excludeHeaders`, lower-case, under the names of the configured product
 * @param ownCookies the gateway's cookies, which are never forwarded
 * @param sendHttpHeaders true if the client's headers are also sent as HTTP headers, for services that read them there
 */
export function externalRequest(
  request: RuleRequest,
  names: ProductNames,
  excluded: ReadonlySet<string>,
  ownCookies: ReadonlySet<string>,
  sendHttpHeaders: boolean,
): ExternalRequest {
  const headers = new Map<string, { readonly name: string; value: string }>();
  const lines: string[] = ['Content-Type', 'application/json', 'Accept', 'application/json'];
  for (let index = 0; index < request.headers.length; index += 2) {
    const name = request.headers[index] as string;
    const line = request.headers[index + 1] as string;
    const key = name.toLowerCase();
    if (excluded.has(key)) continue;
    const value = key === 'cookie' ? withoutCookies(line, ownCookies) : line;
    if (key === 'cookie' && value === '') continue;
    for (const clusterName of names.isProtocolHeader(key) ? names.clusterNames(name) : [name]) {
      const header = headers.get(clusterName.toLowerCase());
      if (header === undefined) headers.set(clusterName.toLowerCase(), { name: clusterName, value });
      else header.value = `${header.value}, ${value}`;
      if (sendHttpHeaders && !ours.has(key)) lines.push(clusterName, value);
    }
  }
  const user = request.user === null ? null : userOf(request.user);
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
    // The fields under the names of Trino Gateway (docs/compatibility.md#external-rules-service).
    ...(isReference ? { contentType: 'application/json', parameters } : {}),
    ...(isReference && user !== null ? { [names.requestUserObject]: user } : {}),
    ...(isReference && query !== null ? { [names.queryPropertiesObject]: query } : {}),
  };
  return { body: JSON.stringify(body), headers: lines };
}

function userOf({ user, userInfo }: RequestUser): object {
  return { user, userInfo: userInfo === null ? null : JSON.stringify(userInfo) };
}

/**
 * The query in the form of Trino Gateway (docs/compatibility.md#external-rules-service).
 * @param isReference true omits missing values, as Trino Gateway does, instead of null
 */
function properties(query: QueryProperties, isReference: boolean): object {
  const { body, queryType, resourceGroupQueryType, defaultCatalog, defaultSchema, errorMessage } = query;
  const { catalogs, schemas, catalogSchemas, isNewQuerySubmission } = query;
  const all = {
    ...{ body, queryType, resourceGroupQueryType, tables: query.tables.map((parts) => parts.join('.')) },
    ...{ defaultCatalog, defaultSchema, catalogs, schemas, catalogSchemas, isNewQuerySubmission },
    isQueryParsingSuccessful: errorMessage === null,
    errorMessage,
  };
  return isReference ? Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null)) : all;
}

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1);
}
