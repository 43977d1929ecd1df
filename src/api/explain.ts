import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { DescribedRequest } from '../gateway/analysis/explainRequest.ts';
import { GatewayError } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import { isQueuedId } from '../routing/statementProtocol.ts';
import { type QueryDecision, readCandidates, type StoredDecision } from '../routing/storedDecision.ts';
import { readTrace } from '../rules/decide/trace.ts';
import { type QueryOutcomeRecord, RUNNING } from '../store/queryOutcome.ts';
import type { QueryRecord, QueuedQueryRow } from '../store/store.ts';
import type { ApiContext, RuleParts, StoreContext } from './apiContext.ts';
import { accessOfRole, type Caller, changeRules, explainAll, queryUserOf } from './auth/endpointAccess.ts';
import { callerOf, isVisible, permissions, requireAccess, visibleQueries } from './auth/guard.ts';
import type { ListQueue, QueueEntry } from './queries.ts';
import { outcomeResponse } from './responses/queries.ts';
import { Explanation, RoutedQuery } from './responses/routing.ts';
import { checkedBody, notFound, ofNamespaces, routes } from './routes.ts';
import { RuleToTry, wholeRule } from './rules.ts';
import { nullable } from './schemas.ts';

const TriedRequest = Type.Object(
  { ...DescribedRequest.properties, rule: Type.Optional(nullable(RuleToTry)) },
  { additionalProperties: false, description: 'A request, described, and a rule to try.' },
);
const QueryInPath = Type.Object({ queryId: Type.String({ description: 'Id of the query.' }) });

/** The route that explains a request (docs/rest-api.md#routing-explained). */
export function explainRoute(api: ApiContext, { explain }: RuleParts): void {
  const { names } = api;

  routes(api, 'routing')('POST', '/api/explain', {
    summary: 'Explains where a request would go',
    description:
      'Nothing is sent and no external service is asked. A statement with a transaction id goes to the cluster that began the transaction. With `rule`, as if that rule were in force in place of the one of its name: it is not stored. A call with `rule` needs the right to change rules. Callers without ADMIN explain requests that a tenant decides of which they may change the resources, and requests of their own: `user` and the header of the user are theirs, `groups` is left out, and there is no other line that names a user.',
    body: checkedBody(TriedRequest),
    returns: ['The decision and how it came about.', Explanation],
    errors: [422, 503],
    options: ofNamespaces,
    handle: async ({ request, body }): Promise<Explanation> => {
      const { rule = null, ...described } = body;
      const caller = callerOf(request);
      const isForAll = await caller.permits(explainAll);
      const isTenants = !isForAll && (await isOfTenants(described, request, api, explain));
      const own = isForAll || isTenants ? described : ownRequest(described, caller, names, explain.identityHeaders);
      if (rule !== null) await requireAccess(request, changeRules);
      const transactionId = explain.transactionOf(own);
      const began = transactionId === null ? null : ((await api.store?.transactions.get(transactionId)) ?? null);
      if (rule !== null) return await explain.withRule(own, wholeRule(rule.name, rule, 'rule.'), began);
      const explanation: Explanation = await explain(own, began);
      // Only callers with rights to rules see their content; their effects on the caller's own request are not secret.
      return isForAll ? explanation : { ...explanation, conditions: [] };
    },
  });
}

/** True if a tenant decides a request in one of the namespaces of which the caller may change the resources. */
async function isOfTenants(
  described: DescribedRequest,
  request: FastifyRequest,
  { operator }: ApiContext,
  explain: RuleParts['explain'],
): Promise<boolean> {
  if (operator === null) return false;
  const { tenancy } = operator.controller;
  const { user, source } = explain.senderOf(described);
  const { tenant } = tenancy.decider(user, source);
  const namespaces = tenancy.namespaces.filter((each) => tenant !== null && tenancy.tenantOf(each) === tenant);
  return namespaces.some(await permissions(request, accessOfRole('ADMIN'), namespaces));
}

/** The route of a query of the history (docs/rest-api.md#routing-explained). */
export function queryDetailsRoute(api: StoreContext, listQueue: ListQueue): void {
  const { buffered, bufferedOutcome } = api;
  const { history, outcomes, queuedQueries: queued } = api.store;

  routes(api, 'routing')('GET', '/api/queries/:queryId', {
    summary: 'Shows where a query went and why, and how it ended',
    description: 'Callers without the role ADMIN see their own queries.',
    params: QueryInPath,
    returns: ['The query and its decision.', RoutedQuery],
    errors: [404, 503],
    options: ofNamespaces,
    handle: async ({ request, params: { queryId } }) => {
      // NUL is in no id, and PostgreSQL rejects it.
      const isPossible = !queryId.includes('\0');
      const row = isQueuedId(queryId) ? await queued.get(queryId) : null;
      // One that waited is in the history under the id that its cluster gave it.
      const recorded = row?.engineId ?? queryId;
      const last = bufferedOutcome(recorded);
      const ended = last?.state === RUNNING ? null : last;
      const outcome = ended ?? (isPossible ? await outcomes.get(recorded) : null);
      const stored = isPossible ? (buffered(recorded) ?? (await history.get(recorded))) : null;
      const record = stored ?? unsentQuery(outcome) ?? (row === null || !isPossible ? null : whileWaiting(row));
      if (record === null || !isVisible(await visibleQueries(request, api), record)) {
        throw notFound(`There is no query ${queryId.slice(0, 100)} in the history.`);
      }
      const isQueued = outcome === null && (row?.state === 'waiting' || row?.state === 'submitting');
      const entry = isQueued ? (await listQueue()).find(({ id }) => id === queryId) : undefined;
      const bypassed = stored === null && outcome?.bypassed === true;
      const query = { ...(await routedQuery(record, row, queued, outcome)), queue: queuePlace(entry), bypassed };
      const { decision } = query;
      // Only callers with rights to rules see their content.
      if (decision?.conditions === undefined || (await callerOf(request).permits(explainAll))) return query;
      const { conditions: _conditions, ...rest } = decision;
      return { ...query, decision: rest };
    },
  });
}

function whileWaiting({ id, user, source, group, created }: QueuedQueryRow): QueryRecord {
  const nowhere = { backendUrl: '', externalUrl: null, cluster: '', decision: null };
  return { queryId: id, queryText: '', user, source, routingGroup: group, created, ...nowhere };
}

/** A submission that no cluster took, or a query that was not sent through the gateway: the history has only its outcome. */
function unsentQuery(outcome: QueryOutcomeRecord | null): QueryRecord | null {
  if (outcome === null || (!outcome.refused && outcome.bypassed !== true)) return null;
  const { queryId, queryText, user, source, routingGroup, created, cluster, decision } = outcome;
  const nowhere = { backendUrl: '', externalUrl: null, cluster: cluster ?? '' };
  return { queryId, queryText: queryText ?? '', user, source, routingGroup, created, decision, ...nowhere };
}

/** @param row of a query that waits, or waited, where it was found by the id that it waits under */
async function routedQuery(
  record: QueryRecord,
  row: QueuedQueryRow | null,
  queued: StoreContext['store']['queuedQueries'],
  outcome: QueryOutcomeRecord | null,
): Promise<Omit<RoutedQuery, 'queue' | 'bypassed'>> {
  const { queryId, queryText, user, source, routingGroup, cluster, backendUrl, externalUrl, created } = record;
  const decision = record.decision === null ? null : readDecision(record.decision);
  const queuedAs = row?.id ?? decision?.queuedAs ?? null;
  const waited = row ?? (queuedAs === null ? null : await queued.get(queuedAs));
  return {
    ...{ queryId, queryText, user, source, routingGroup, cluster, backendUrl, externalUrl },
    received: waited === null ? null : new Date(waited.created).toISOString(),
    ...{ created: new Date(created).toISOString(), queuedAs, decision },
    ...{ rule: decision?.rule ?? outcome?.rule ?? null, outcome: outcomeResponse(outcome) },
    inputs: JSON.parse(outcome?.inputs ?? '[]') as RoutedQuery['inputs'],
  };
}

function queuePlace(entry: QueueEntry | undefined): RoutedQuery['queue'] {
  if (entry === undefined) return null;
  const { position, groupWaiting, movedFirst, state, reason } = entry;
  return { position, groupWaiting, movedFirst, state, reason };
}

/**
 * A request that a caller without ADMIN may have explained: their own.
 * @throws GatewayError EG_FORBIDDEN naming the field that states who another user is
 */
function ownRequest(
  described: DescribedRequest,
  caller: Caller,
  names: ProductNames,
  further: readonly string[],
): DescribedRequest {
  const { name } = caller;
  const user = queryUserOf(caller);
  const forbidden = (field: string) =>
    new GatewayError(
      'EG_FORBIDDEN',
      `${JSON.stringify(name)} may have requests of their own explained; leave ${field} out, or have the role ADMIN.`,
      { field },
    );
  if (described.user != null && described.user !== name && described.user !== user) throw forbidden('user');
  if (described.groups !== undefined) throw forbidden('groups');
  const headers = described.headers ?? {};
  const userHeader = names.header('User');
  const keyOf = (header: string) => names.ownHeader(header).toLowerCase();
  const isUser = (header: string) => keyOf(header) === names.headerKey('User');
  const identities = new Set([
    ...identityHeaders,
    ...further,
    names.headerKey('Original-User'),
    names.headerKey('Role'),
  ]);
  for (const [header, value] of Object.entries(headers)) {
    const isOwn = isUser(header) && [value].flat().every((line) => line === name);
    const isOthers = isUser(header) || identities.has(keyOf(header));
    if (!isOwn && isOthers) throw forbidden(`headers.${header}`);
  }
  const hasUser = Object.keys(headers).some(isUser);
  // Theirs is mapped already.
  return { ...described, user, mapUser: false, headers: hasUser ? headers : { ...headers, [userHeader]: name } };
}

/** Headers that state who sends a request, in addition to those of the product. */
const identityHeaders = [
  'authorization',
  'cookie',
  'proxy-authorization',
  'forwarded',
  'x-forwarded-for',
  'x-forwarded-user',
  'x-forwarded-client-cert',
];

function readDecision(text: string): QueryDecision {
  // Pages and programs know further values of `decidedBy` as texts.
  const { rules, candidates, ...rest } = JSON.parse(text) as StoredDecision & Pick<QueryDecision, 'decidedBy'>;
  const decision = candidates === undefined ? rest : { ...rest, candidates: readCandidates(candidates, rest) };
  return rules === undefined ? decision : { ...decision, rules: readTrace(rules) };
}
