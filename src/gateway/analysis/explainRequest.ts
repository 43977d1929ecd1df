import { type Static, Type } from 'typebox';
import { GatewayError } from '../../model/errors.ts';
import { headerValues, type RawHeaders } from '../../model/http.ts';
import { membershipOf } from '../../model/membership.ts';
import type { ProductNames } from '../../model/names.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import { estimateIn, noEstimate } from '../../model/sizeEstimates.ts';
import { compileCheck } from '../../model/validation.ts';
import { survivalOf } from '../../routing/admissionPolicy.ts';
import type { HasCapacity } from '../../routing/clusterChooser.ts';
import { explainRouting, routingOf, type TransactionOwner } from '../../routing/explanation.ts';
import { type GroupDecision, GroupRouter } from '../../routing/groupRouter.ts';
import { type Refusal, toRefusal } from '../../routing/refusal.ts';
import type { RoutingTable, RoutingTableHolder } from '../../routing/routingTable.ts';
import { transactionIdOf } from '../../routing/statementProtocol.ts';
import { placedText, type RuleDraft } from '../../rules/compile/ruleDraft.ts';
import { readValues } from '../../rules/decide/readValues.ts';
import type { ReadCondition, RuleRequest, RuleSet, RuleTrace } from '../../rules/decision.ts';
import type { RuleCompiler, TriedRule } from '../../rules/ruleCompiler.ts';
import type { AnalyzableRequest, AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import { isRead } from '../../sql/analyzeSql.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import { queryDigests } from '../../sql/statementDigests.ts';
import { isStatementPath } from '../../sql/statementPath.ts';
import { ProtocolHeaders } from '../headers/requestHeaders.ts';

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
interface DescriptionReader {
  readonly names: ProductNames;
  readonly statementPaths: readonly string[];
  /** `requestAnalyzerConfig.analyzeRequest`. */
  readonly analyzeRequest: boolean;
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

/** A described request as its analysis reads it. */
export function analyzableRequest(description: DescribedRequest, reader: DescriptionReader): AnalyzableRequest {
  const { method = 'POST', body = null } = description;
  const { lines: headers } = describedHeaders(description, reader.names);
  return { method, isSubmission: isDescribedSubmission(description, reader), headers, body };
}

/** @param properties result of its analysis */
export function describedRuleRequest(
  description: DescribedRequest,
  reader: DescriptionReader,
  properties: QueryProperties,
): RuleRequest {
  const { method, isSubmission, headers } = analyzableRequest(description, reader);
  const [path = '/', ...query] = (description.path ?? '/v1/statement').split('?');
  const lineOf = (name: string): string | null => headerValues(headers, name)[0] ?? null;
  const host = /^(\[[^\]]*\]|[^:]*)(?::([0-9]+))?$/.exec(lineOf('host') ?? 'localhost');
  const isForm = lineOf('content-type')?.toLowerCase().startsWith('application/x-www-form-urlencoded') === true;
  const sender = describedUser(description, headers, reader);
  return {
    method,
    path,
    query: query.length === 0 ? null : query.join('?'),
    headers,
    scheme: 'http',
    serverName: (host?.[1] ?? 'localhost').replace(/^\[|\]$/g, ''),
    serverPort: Number(host?.[2] ?? 80),
    remoteAddr: description.remoteAddr ?? '127.0.0.1',
    remoteUser: null,
    formBody: isForm ? (description.body ?? null) : null,
    isSubmission,
    sender,
    user: reader.analyzeRequest ? sender : null,
    queryProperties: reader.analyzeRequest ? properties : null,
  };
}

/** Its header lines as the gateway reads them, and the conflict for which it would reject the request. */
function describedHeaders(
  { headers = {} }: DescribedRequest,
  names: ProductNames,
): { readonly lines: RawHeaders; readonly conflict: string | null } {
  const lines = Object.entries(headers).flatMap(([name, value]) =>
    (typeof value === 'string' ? [value] : value).flatMap((line) => [name, line]),
  );
  const { conflict } = new ProtocolHeaders(names).normalize(lines);
  return { lines, conflict };
}

function isDescribedSubmission(
  { method = 'POST', path = '/v1/statement' }: DescribedRequest,
  { statementPaths }: { readonly statementPaths: readonly string[] },
): boolean {
  return method === 'POST' && isStatementPath(path.split('?')[0] ?? '', statementPaths);
}

/** The user of a described request: header lines are mapped, `user` only if `mapUser` is set. */
function describedUser(description: DescribedRequest, lines: RawHeaders, reader: DescriptionReader): RequestUser {
  const { groups } = description;
  const named = namedUser(description, lines, reader);
  if (named.rejection !== undefined) return named;
  if (groups === undefined) return reader.groupsOf?.(named, lines) ?? named;
  const { user, userInfo, mapping } = named;
  return { user, userInfo, ...(mapping && { mapping }), membership: membershipOf([{ source: 'described', groups }]) };
}

function namedUser(
  { user, mapUser = false }: DescribedRequest,
  lines: RawHeaders,
  { userOf, mapped, mappedName }: DescriptionReader,
): RequestUser {
  if (user === undefined) {
    const claimed = userOf(lines);
    return mapped?.(claimed) ?? claimed;
  }
  const described = { user, userInfo: null };
  return user === null || !mapUser ? described : (mappedName?.(user) ?? described);
}

/** Maximum number of conditions of evaluated rules: thousands would take seconds. */
const MAX_CONDITIONS = 50;

/** Admission checks for explanations; default: none. */
export interface ExplainedAdmission {
  readonly hasCapacity?: HasCapacity;
  /** The limits that a submission would wait for now, or null. */
  readonly whyItWaits?: (submission: {
    readonly decision: GroupDecision;
    readonly user: RequestUser;
    readonly headers: RawHeaders;
    readonly body: { readonly text: string };
  }) => string | null;
}

/** Explains the current routing of requests. */
export type ExplainRequest = ReturnType<typeof requestExplanation>;

/**
 * Makes the explanation of described requests: the same steps as for a real one, with nothing sent and no one asked.
 * @param defaultGroup `routing.defaultRoutingGroup`
 * @param tryRule makes the rule set of the rules active with a draft among them
 * @param admission what would let it wait; nothing is taken of limits
 */
export function requestExplanation(
  table: RoutingTableHolder,
  reader: DescriptionReader & { readonly analyze: AnalyzeLongRequest },
  defaultGroup: string,
  tryRule: RuleCompiler['tryRule'],
  admission: ExplainedAdmission,
) {
  const chain = new GroupRouter(reader.names, defaultGroup);
  const transactionKey = reader.names.headerKey('Transaction-Id');
  const explained = async (description: DescribedRequest, current: RoutingTable, began: TransactionOwner | null) => {
    const properties = await reader.analyze(analyzableRequest(description, reader));
    const request = describedRuleRequest(description, reader, properties);
    const routed = await routingOf(chain, request, current);
    const sender = describedUser(description, request.headers, reader);
    const { conflict } = describedHeaders(description, names);
    const refusal: Refusal | null =
      conflict !== null
        ? toRefusal('header_conflict', conflict)
        : sender.rejection === undefined
          ? null
          : toRefusal('user_mapping', sender.rejection);
    const routing = refusal === null ? routed : { ...routed, refused: { refusal, rule: null } };
    const hasCapacity: HasCapacity = (cluster) => admission.hasCapacity?.(cluster) ?? true;
    const explanation = explainRouting(current, routing, defaultGroup, began, hasCapacity);
    const { decision, refused } = routing;
    // Only submissions wait, except statements of transactions and calls of kill_query.
    const mayWait = refused === null && began === null && request.isSubmission && !isKill(request);
    const body = { text: properties.body };
    const why = mayWait
      ? (admission.whyItWaits?.({ decision, user: sender, headers: request.headers, body }) ?? null)
      : null;
    const message = why === null ? explanation.message : `${explanation.message}; it would wait: ${why}`;
    const policy = mayWait && isRead(properties) ? survivalOf(current.admission.groups, decision) : null;
    const survival = policy && { reasons: policy.reasons, to: policy.to.length === 0 ? [decision.group] : policy.to };
    const conditions = conditionsRead(current.rules, explanation.rules, request);
    return { ...explanation, message, waitsFor: why, survival, conditions, request: describe(request, sender) };
  };
  const { names, analyzeRequest } = reader;
  /** Conditions of evaluated rules: rules with an effect first. */
  const conditionsRead = (rules: RuleSet | null, trace: readonly RuleTrace[], request: RuleRequest) => {
    const texts = new Map(rules?.conditions?.().map((each) => [`${each.origin}/${each.rule}`, each.condition]));
    const reached = trace.filter(({ outcome }) => outcome !== 'skipped');
    const acting = reached.filter(({ outcome }) => outcome !== 'not-matched');
    const others = reached.filter(({ outcome }) => outcome === 'not-matched');
    return [...acting, ...others].slice(0, MAX_CONDITIONS).flatMap(({ rule, origin }): ReadCondition[] => {
      const condition = texts.get(`${origin}/${rule}`);
      if (condition === undefined) return [];
      return [{ rule, origin, condition, values: readValues(condition, request, { names, analyzeRequest }) }];
    });
  };
  /** @param began the cluster of its transaction; null outside of known transactions */
  const now = (description: DescribedRequest, began: TransactionOwner | null) =>
    explained(description, table.current, began);
  return Object.assign(now, {
    /** Lower-case names of headers that identify a user, in addition to those of the protocol and of HTTP. */
    identityHeaders: (reader.identityHeaders ?? []).map((name) => names.ownHeader(name).toLowerCase()),
    /**
     * Explains it with one more rule, which replaces the rule with its name or is added; stores nothing.
     * @throws GatewayError EG_MALFORMED (the rule does not compile), EG_IMPOSSIBLE (rules are disabled)
     */
    withRule: async (description: DescribedRequest, draft: RuleDraft, began: TransactionOwner | null) =>
      await explained(description, { ...table.current, rules: triedRules(tryRule(draft)) }, began),
    /** The user and the source of a described request, by which tenants decide. */
    senderOf(description: DescribedRequest) {
      const { lines } = describedHeaders(description, names);
      const source = headerValues(lines, names.headerKey('Source'))[0] ?? '';
      return { user: describedUser(description, lines, reader), source };
    },
    /** Id of the transaction of a described statement, or null. */
    transactionOf(description: DescribedRequest) {
      if (!isDescribedSubmission(description, reader)) return null;
      return transactionIdOf(headerValues(describedHeaders(description, names).lines, transactionKey)[0]);
    },
  });
}

function isKill({ queryProperties }: RuleRequest): boolean {
  return queryProperties?.queryId != null;
}

function triedRules(tried: TriedRule | null): RuleSet {
  if (tried === null) {
    throw new GatewayError('EG_IMPOSSIBLE', 'routingRules.rulesEngineEnabled is false: no rule is asked', {
      field: 'rule',
    });
  }
  if ('ruleSet' in tried) return tried.ruleSet;
  const problems = tried.problems.map((problem) => ({ ...problem, field: `rule.${problem.field}` }));
  throw new GatewayError('EG_MALFORMED', placedText(problems), { problems, field: problems[0]?.field ?? 'rule' });
}

function describe({ isSubmission, user, queryProperties }: RuleRequest, { mapping }: RequestUser) {
  return {
    isSubmission,
    user: user?.user ?? null,
    userMapping: mapping === undefined ? null : { from: mapping.from },
    groups: user?.membership?.sources ?? null,
    query: queryProperties === null ? null : describedQuery(queryProperties),
  };
}

function describedQuery(properties: QueryProperties) {
  const { queryType, resourceGroupQueryType, tables, catalogs, schemas, errorMessage } = properties;
  const names = { tables: tables.map((parts) => parts.join('.')), catalogs, schemas };
  const digests = queryDigests(properties);
  const estimate = properties.estimates === undefined ? noEstimate : estimateIn(properties.estimates.table, digests);
  return { queryType, resourceGroupQueryType, ...names, errorMessage, queryDigest: digests.shape, estimate };
}
