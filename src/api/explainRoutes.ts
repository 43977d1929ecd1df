import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import { DescribedRequest } from '../gateway/analysis/describedRequest.ts';
import type { ExplainRequest } from '../gateway/analysis/explainRequest.ts';
import { GatewayError } from '../model/errors.ts';
import { compileCheck } from '../model/validation.ts';
import { isQueuedId } from '../routing/queryId.ts';
import type { QueryDecision, StoredDecision } from '../routing/storedDecision.ts';
import { readTrace } from '../rules/storedTrace.ts';
import type {
  HistoryWriter,
  QueryHistoryRepository,
  QueryRecord,
  QueuedQueryRepository,
  QueuedQueryRow,
  TransactionRepository,
} from '../store/store.ts';
import { Explanation, RoutedQuery } from './answers/routing.ts';
import type { Caller } from './auth/caller.ts';
import { changeRules } from './auth/endpointAccess.ts';
import { requireAccess } from './auth/guard.ts';
import { malformed } from './errors.ts';
import { jsonBody } from './jsonBody.ts';
import { RuleToTry, wholeRule } from './ruleRoutes.ts';
import { answer, errorAnswers } from './schemas.ts';

/** Dependencies of the routes that explain routing. */
export interface ExplainRoutes {
  readonly explain: ExplainRequest;
  readonly history: QueryHistoryRepository;
  readonly transactions: Pick<TransactionRepository, 'get'>;
  /** Records that are not in the database yet. */
  readonly buffered: HistoryWriter['findBuffered'];
  /** Queries that wait, or waited; null where none do. */
  readonly queued: Pick<QueuedQueryRepository, 'get'> | null;
}

const tags = ['routing'];
const TriedRequest = Type.Object(
  { ...DescribedRequest.properties, rule: Type.Optional(Type.Union([RuleToTry, Type.Null()])) },
  { additionalProperties: false, description: 'A request, described, and a rule to try.' },
);
const checkTriedRequest = compileCheck(TriedRequest);
const QueryInPath = Type.Object({ queryId: Type.String({ description: 'Id of the query.' }) });

/** Where requests would go, and where queries went (docs/rest-api.md#routing-explained). */
export async function explainRoutes(
  app: FastifyInstance,
  { explain, history, transactions, buffered, queued }: ExplainRoutes,
): Promise<void> {
  app.post(
    '/api/explain',
    {
      schema: {
        tags,
        summary: 'Explains where a request would go',
        description:
          'Nothing is sent and no external service is asked. A statement with a transaction id goes to the cluster that began the transaction. With `rule`, as if that rule were in force in place of the one of its name: it is not stored. A call with `rule` needs the right to change rules.',
        body: TriedRequest,
        response: {
          200: answer('The decision and how it came about.', Explanation),
          ...errorAnswers(400, 413, 415, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const checked = checkTriedRequest(jsonBody(request));
      if (!checked.ok) throw malformed(checked.problems);
      const { rule, ...described } = checked.value;
      const isTrial = rule !== undefined && rule !== null;
      if (isTrial) await requireAccess(request, changeRules);
      const transactionId = explain.transactionOf(described);
      const began = transactionId === null ? null : await transactions.get(transactionId);
      if (!isTrial) return reply.send((await explain(described, began)) satisfies Explanation);
      return reply.send(await explain.withRule(described, wholeRule(rule.name, rule, 'rule.'), began));
    },
  );

  app.get(
    '/api/queries/:queryId',
    {
      config: { role: 'USER' },
      schema: {
        tags,
        summary: 'Shows where a query went and why',
        description: 'Callers without the role ADMIN see their own queries.',
        params: QueryInPath,
        response: { 200: answer('The query and its decision.', RoutedQuery), ...errorAnswers(404, 503) },
      },
    },
    async (request, reply) => {
      const { queryId } = request.params as { queryId: string };
      // NUL is in no id, and PostgreSQL refuses it.
      const isPossible = !queryId.includes('\0');
      const row = queued !== null && isQueuedId(queryId) ? await queued.get(queryId) : null;
      // One that waited is in the history under the id that its cluster gave it.
      const recorded = row?.engineId ?? queryId;
      const record = isPossible
        ? (buffered(recorded) ?? (await history.get(recorded)) ?? (row === null ? null : whileWaiting(row)))
        : null;
      if (record === null || !(await maySee(request.caller, record)))
        throw new GatewayError('EG_NOT_FOUND', `There is no query ${queryId.slice(0, 100)} in the history.`);
      return reply.send(routedQuery(record, row?.id ?? null));
    },
  );
}

/** A query that no cluster has yet. */
function whileWaiting({ id, user, source, group, created }: QueuedQueryRow): QueryRecord {
  const nowhere = { backendUrl: '', externalUrl: null, cluster: '', decision: null };
  return { queryId: id, queryText: '', user, source, routingGroup: group, created, ...nowhere };
}

/** Administrators see all queries, users their own, as in `findQueryHistory`. */
async function maySee(caller: Caller | null, record: QueryRecord): Promise<boolean> {
  if (caller === null || caller.name === record.user) return true;
  return (await caller.roles()).has('ADMIN');
}

/** @param queuedAs id under which it waits, or waited, where that is known beside the decision */
function routedQuery(record: QueryRecord, queuedAs: string | null): RoutedQuery {
  const { queryId, user, source, routingGroup, cluster, backendUrl, externalUrl, created } = record;
  const decision = record.decision === null ? null : readDecision(record.decision);
  return {
    queryId,
    user,
    source,
    routingGroup,
    cluster,
    backendUrl,
    externalUrl,
    created: new Date(created).toISOString(),
    queuedAs: queuedAs ?? decision?.queuedAs ?? null,
    decision,
  };
}

function readDecision(text: string): QueryDecision {
  const { rules, ...decision } = JSON.parse(text) as StoredDecision;
  return rules === undefined ? decision : { ...decision, rules: readTrace(rules) };
}
