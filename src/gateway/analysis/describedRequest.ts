import { type Static, Type } from 'typebox';
import type { ProductNames } from '../../model/names.ts';
import { headerValues, type RawHeaders } from '../../model/rawHeaders.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import { compileCheck } from '../../model/validation.ts';
import type { RuleRequest } from '../../rules/decision.ts';
import type { AnalyzableRequest, AnalyzeLongRequest, AnalyzeRequest } from '../../sql/analyzeRequest.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import { isStatementPath } from '../../sql/statementPath.ts';
import { ProtocolHeaders } from '../headers/protocolHeaders.ts';
import { membershipOf } from './membership.ts';

export const DescribedRequest = Type.Object(
  {
    method: Type.Optional(Type.String({ pattern: '^[A-Z]+$', maxLength: 16, description: 'POST by default.' })),
    path: Type.Optional(
      Type.String({
        pattern: '^/',
        maxLength: 8192,
        description: 'Path, with a query string if there is one; /v1/statement by default.',
      }),
    ),
    headers: Type.Optional(
      Type.Record(Type.String(), Type.Union([Type.String(), Type.Array(Type.String())]), {
        description: 'Header lines: name to value, or to the values of repeated lines.',
      }),
    ),
    body: Type.Optional(Type.String({ description: 'The body: the SQL text of a submission.' })),
    remoteAddr: Type.Optional(
      Type.String({ maxLength: 64, description: 'Address of the client; 127.0.0.1 by default.' }),
    ),
    user: Type.Optional(
      Type.Union([Type.String(), Type.Null()], { description: 'The user, in place of what the headers say.' }),
    ),
    mapUser: Type.Optional(
      Type.Boolean({
        description:
          'Whether `user` is the name as clients send it, which the user mapping maps; else it is mapped already.',
      }),
    ),
    groups: Type.Optional(
      Type.Array(Type.String({ minLength: 1, maxLength: 512 }), {
        maxItems: 1000,
        description: "The user's groups, in place of what the sources of groups say.",
      }),
    ),
  },
  { $id: 'DescribedRequest', additionalProperties: false, description: 'A request, described.' },
);
export type DescribedRequest = Static<typeof DescribedRequest>;

export const parseDescribedRequest = compileCheck(DescribedRequest);

/** Converts descriptions to requests for rules, without network access. */
export interface DescriptionReader<Analyze extends AnalyzeLongRequest = AnalyzeRequest> {
  readonly names: ProductNames;
  readonly statementPaths: readonly string[];
  /** `requestAnalyzerConfig.analyzeRequest`. */
  readonly analyzeRequest: boolean;
  readonly analyze: Analyze;
  /** The user in header lines, without network access. */
  readonly userOf: (headers: RawHeaders) => RequestUser;
  /** Maps user names of header lines; default: unchanged. */
  readonly mapped?: (user: RequestUser) => RequestUser;
  /** The user of a name as clients send it, from any source; default: unchanged. */
  readonly mappedName?: (name: string) => RequestUser;
  /** Adds the user's groups, without network access; absent without a configured source of groups. */
  readonly groupsOf?: (user: RequestUser, headers: RawHeaders) => RequestUser;
  readonly identityHeaders?: readonly string[];
}

export function describedRuleRequest(description: DescribedRequest, reader: DescriptionReader): RuleRequest {
  const { analyzable, ruleRequest } = describedParts(description, reader);
  return ruleRequest(reader.analyze(analyzable));
}

/** The asynchronous variant for long statements. */
export async function awaitedRuleRequest(
  description: DescribedRequest,
  reader: DescriptionReader<AnalyzeLongRequest>,
): Promise<RuleRequest> {
  const { analyzable, ruleRequest } = describedParts(description, reader);
  return ruleRequest(await reader.analyze(analyzable));
}

interface DescribedParts {
  readonly analyzable: AnalyzableRequest;
  readonly ruleRequest: (properties: QueryProperties) => RuleRequest;
}

function describedParts(description: DescribedRequest, reader: DescriptionReader<AnalyzeLongRequest>): DescribedParts {
  const { method = 'POST', body = null } = description;
  const [path = '/', ...query] = (description.path ?? '/v1/statement').split('?');
  const { lines: headers } = describedHeaders(description, reader.names);
  const lineOf = (name: string): string | null => headerValues(headers, name)[0] ?? null;
  const host = /^(\[[^\]]*\]|[^:]*)(?::([0-9]+))?$/.exec(lineOf('host') ?? 'localhost');
  const isForm = lineOf('content-type')?.toLowerCase().startsWith('application/x-www-form-urlencoded') === true;
  const isSubmission = isDescribedSubmission(description, reader);
  const ruleRequest = (properties: QueryProperties): RuleRequest => ({
    method,
    path,
    query: query.length === 0 ? null : query.join('?'),
    headers,
    scheme: 'http',
    serverName: (host?.[1] ?? 'localhost').replace(/^\[|\]$/g, ''),
    serverPort: Number(host?.[2] ?? 80),
    remoteAddr: description.remoteAddr ?? '127.0.0.1',
    remoteUser: null,
    formBody: isForm ? body : null,
    isSubmission,
    user: reader.analyzeRequest ? describedUser(description, headers, reader) : null,
    queryProperties: reader.analyzeRequest ? properties : null,
  });
  return { analyzable: { method, isSubmission, headers, body }, ruleRequest };
}

/** Its header lines as the gateway reads them, and the conflict for which it would reject the request. */
export function describedHeaders(
  { headers = {} }: DescribedRequest,
  names: ProductNames,
): { readonly lines: RawHeaders; readonly conflict: string | null } {
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    (typeof value === 'string' ? [value] : value).flatMap((line) => [name, line]),
  );
  const { conflict } = new ProtocolHeaders(names).normalize(lines);
  return { lines, conflict };
}

export function isDescribedSubmission(
  { method = 'POST', path = '/v1/statement' }: DescribedRequest,
  { statementPaths }: { readonly statementPaths: readonly string[] },
): boolean {
  return method === 'POST' && isStatementPath(path.split('?')[0] ?? '', statementPaths);
}

/** The user of a described request: header lines are mapped, `user` only if `mapUser` is set. */
export function describedUser(
  description: DescribedRequest,
  lines: RawHeaders,
  reader: DescriptionReader<AnalyzeLongRequest>,
): RequestUser {
  const { groups } = description;
  const named = namedUser(description, lines, reader);
  if (named.refusal !== undefined) return named;
  if (groups === undefined) return reader.groupsOf?.(named, lines) ?? named;
  return { ...withoutEvidence(named), membership: membershipOf([{ source: 'described', groups }]) };
}

function namedUser(
  { user, mapUser = false }: DescribedRequest,
  lines: RawHeaders,
  { userOf, mapped, mappedName }: DescriptionReader<AnalyzeLongRequest>,
): RequestUser {
  if (user === undefined) {
    const claimed = userOf(lines);
    return mapped?.(claimed) ?? claimed;
  }
  const described = { user, userInfo: null };
  return user === null || !mapUser ? described : (mappedName?.(user) ?? described);
}

function withoutEvidence({ user, userInfo, mapping }: RequestUser): RequestUser {
  return { user, userInfo, ...(mapping === undefined ? {} : { mapping }) };
}
