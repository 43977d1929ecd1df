import { Alert, List, Stack, Text } from '@mantine/core';
import { IconRefresh } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { messageOf } from '../../client/call.ts';
import type { Explanation, QueryDecision, RuleEffect, WholeQuery } from '../../client/types.ts';
import { Faint, formatElapsed, Notice, SmallAction, Strong, To } from '../../components/elements.tsx';
import { PlainTable } from '../../components/facts.tsx';
import { Panel } from '../../components/frame.tsx';
import { ClusterName, clusterAddress, RuleName } from '../../components/names.tsx';
import { lookOf, TraceList } from '../../components/RuleTrace.tsx';
import { useRole } from '../../session/session.ts';
import classes from './query.module.css';
import { explainAgain, isStored, storedHeaders } from './storedRequest.ts';

/** Routing of a query, with the values that conditions read, and the current decision. */
export function Reasons({ query }: { readonly query: WholeQuery }) {
  const { queryId, queryText } = query;
  const isOwn = !useRole('ADMIN');
  const reach = reachOf(query);
  const now = useQuery({
    queryKey: ['query', queryId, 'explanation', isOwn],
    queryFn: ({ signal }) => explainAgain(query, isOwn, signal),
    enabled: queryText !== '',
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  });
  const again = (
    <SmallAction
      label="Decide again now"
      icon={IconRefresh}
      loading={now.isFetching}
      disabled={queryText === ''}
      onClick={() => void now.refetch()}
    />
  );
  return (
    <>
      <Panel title={reach === 'taken' || reach === 'waiting' ? 'Why it went there' : 'Why it went nowhere'}>
        <Decision query={query} conditions={now.data?.conditions ?? []} />
      </Panel>
      <Panel title="As it would be decided now" actions={again}>
        <div aria-live="polite">
          {queryText === '' && <Text size="sm">{noText(query)}</Text>}
          {now.error !== null && (
            <Notice tone="error" title="Not decided">
              {messageOf(now.error)}
            </Notice>
          )}
          {now.data !== undefined && <Now query={query} explanation={now.data} />}
        </div>
      </Panel>
    </>
  );
}

function Now({ query, explanation }: { readonly query: WholeQuery; readonly explanation: Explanation }) {
  const { message, clusters } = explanation;
  return (
    <Stack gap="sm">
      <Text size="sm">{message}</Text>
      {isComparable(query) && <DecisionDifference query={query} explanation={explanation} />}
      {clusters.length > 0 && (
        <div>
          <Strong>Clusters considered</Strong>
          <ul className={classes.clusters} aria-label="Clusters considered">
            {clusters.map(({ cluster, taken, reason }) => (
              <li key={cluster}>
                <To address={clusterAddress(cluster)}>{cluster}</To>: {taken ? 'may take it, ' : 'not taken, '}
                {reason}
              </li>
            ))}
          </ul>
        </div>
      )}
      <Faint>{basisText(query)}</Faint>
    </Stack>
  );
}

/** Describes the origin of the request for a new decision, and unknown parts. */
function basisText(query: WholeQuery): string {
  const facts = query.decision?.request;
  const start = 'Decided by what is stored of the request: user, source, ';
  if (facts === undefined) return `${start}and text. Its other headers and its address are not stored.`;
  const names = Object.keys(storedHeaders(query));
  const headers =
    names.length === 0 ? 'and text' : `text, and the header${names.length === 1 ? '' : 's'} ${names.join(', ')}`;
  const unkept = facts.unkept === undefined ? '' : ` It had more that is not stored: ${facts.unkept.join(', ')}.`;
  return `${start}${headers}.${unkept} Its address, and headers that no rule read, are not stored.`;
}

type Condition = Explanation['conditions'][number];

interface DecisionProps {
  readonly query: WholeQuery;
  readonly conditions: readonly Condition[];
}

/** Routing of a query: a sentence, then rule by rule. */
function Decision({ query, conditions: conditionsNow }: DecisionProps) {
  const { decision, rule = null } = query;
  const { rules, conditions: conditionsThen = [] } = decision ?? {};
  const conditionOf = (name: string, origin?: Condition['origin']): ReactNode => {
    const isIts = (each: Condition) => each.rule === name && (origin === undefined || each.origin === origin);
    const then = conditionsThen.find(isIts);
    if (then !== undefined) return <ConditionRead condition={then} isKnown={() => true} />;
    const now = conditionsNow.find(isIts);
    return now === undefined ? null : <ConditionRead condition={now} isKnown={(source) => isStored(query, source)} />;
  };
  const isDecided = decision !== null && decision.group !== '';
  return (
    <Stack gap="sm">
      {isDecided ? (
        <Text className={classes.message}>{describeDecision(decision, query)}</Text>
      ) : (
        <Undecided query={query} />
      )}
      {decision !== null && <Way decision={decision} />}
      {rules !== undefined ? (
        <TraceList rules={rules} linked about={(effect) => conditionOf(effect.rule, effect.origin)} />
      ) : (
        <>
          {isDecided && rule === null && <Text size="sm">There were no rules.</Text>}
          {rule !== null && conditionOf(rule)}
        </>
      )}
      {conditionsNow.length > 0 && (
        <Faint>
          Conditions are shown as they are now, with the values that they read of what is stored of the request
          {conditionsThen.length > 0 && '; that of the rule which refused it as it was then'}.
        </Faint>
      )}
    </Stack>
  );
}

/** Explains a query that ended before its routing group was decided, or without a stored decision. */
function Undecided({ query }: { readonly query: WholeQuery }) {
  const { rule, outcome } = query;
  const reach = reachOf(query);
  if (reach === 'denied' || reach === 'refused') {
    return (
      <Text component="div" className={classes.message}>
        {rule != null ? (
          <>
            The rule <RuleName name={rule} /> {reach === 'denied' ? 'denied it' : 'could not be decided'}.{' '}
          </>
        ) : (
          reach === 'denied' && 'It was denied. '
        )}
        {endText(query)}
      </Text>
    );
  }
  const why: Readonly<Record<Exclude<Reach, 'refused' | 'denied'>, string>> = {
    taken: `No decision is stored with this query: it was ${query.bypassed ? 'not sent through the gateway' : 'routed by a gateway that ran before'}.`,
    waiting: 'No decision is stored yet: the query waits for a cluster.',
    dropped: `No decision is stored with this query: it ended (${outcome?.state.toLowerCase()}) while it waited for a cluster.`,
  };
  return <Alert role="status">{why[reach]}</Alert>;
}

/** Steps of a query to its cluster: external service, waits, attempts. */
function estimateText({ sizeClass, seconds, source, runs }: NonNullable<QueryDecision['estimate']>): string {
  if (seconds === null) return 'Expected size: unknown, as no run of its shape is known.';
  const of = source === 'exact' ? 'this statement' : 'its shape';
  return `Expected size: ${sizeClass}, up to ${formatElapsed(seconds * 1_000)}, by ${runs.toLocaleString('en')} runs of ${of}.`;
}

function Way({ decision }: { readonly decision: QueryDecision }) {
  const {
    group,
    cluster,
    attempts = [],
    steps = [],
    candidates = [],
    external,
    admission,
    queuedAs,
    estimate,
  } = decision;
  return (
    <>
      {external !== undefined && <Text size="sm">{externalText(external)}</Text>}
      {estimate !== undefined && <Text size="sm">{estimateText(estimate)}</Text>}
      {admission !== undefined && <Text size="sm">It waited: {admission}.</Text>}
      {queuedAs !== undefined && <Text size="sm">While it waited its id was {queuedAs}.</Text>}
      {steps.length > 0 && (
        <List size="sm">
          {steps.map((step) => (
            <List.Item key={step}>{step}</List.Item>
          ))}
        </List>
      )}
      {attempts.length > 0 && (
        <div>
          <Strong>{cluster === '' ? 'Tried' : `Tried before ${cluster}`}</Strong>
          <List size="sm">
            {attempts.map((attempt) => (
              <List.Item key={attempt.cluster}>
                {attempt.cluster}: {attempt.error}
              </List.Item>
            ))}
          </List>
        </div>
      )}
      {candidates.length > 0 && (
        <div>
          <Strong>Clusters considered then</Strong>
          <ul className={classes.clusters} aria-label="Clusters considered then">
            {candidates.map((candidate) => (
              <li key={candidate.cluster}>
                <ClusterName name={candidate.cluster} />: {candidateText(candidate, group)}
              </li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}

type Candidate = NonNullable<QueryDecision['candidates']>[number];

function candidateText(candidate: Candidate, group: string): string {
  const { routingGroup, taken, chosen, reason, queued, running } = candidate;
  const part = chosen ? 'chosen' : taken ? 'could have taken it' : 'could not take it';
  const counts = [
    ...(queued === undefined ? [] : [`${queued} queued`]),
    ...(running === undefined ? [] : [`${running} running by its last check`]),
  ];
  return [part, ...(routingGroup === group ? [] : [`of ${routingGroup}`]), reason, ...counts].join(', ');
}

interface ConditionReadProps {
  readonly condition: Condition;
  readonly isKnown: (source: string | null) => boolean;
}

function ConditionRead({ condition: { condition, values }, isKnown }: ConditionReadProps) {
  return (
    <>
      <pre className={classes.condition}>{condition}</pre>
      {values.length > 0 && (
        <ul className={classes.values} aria-label="Values">
          {values.map(({ expression, value, source }) => (
            <li key={expression}>
              <code>{expression}</code>: {isKnown(source) ? <code>{value}</code> : 'not stored'}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** Text for the response of the external rules service. */
function externalText(external: NonNullable<QueryDecision['external']>): string {
  switch (external.outcome) {
    case 'answered':
      return `The external rules service answered with the routing group ${external.routingGroup}${headers(external)}.`;
    case 'errors':
      return `The external rules service answered with errors${headers(external)}: ${external.errors.join('; ') || 'none named'}.`;
    case 'failed':
      return `The external rules service did not answer as it should: ${external.reason}.`;
    case 'skipped':
      return `The external rules service was not asked, as it had failed before: ${external.reason}.`;
  }
}

const headers = ({ setHeaders = [] }: { readonly setHeaders?: readonly string[] }): string =>
  setHeaders.length === 0 ? '' : ` and set ${setHeaders.join(', ')}`;

/** Compares the original decision with the current one, if they differ. */
function DecisionDifference({ query, explanation }: { readonly query: WholeQuery; readonly explanation: Explanation }) {
  const rows = differences(query, explanation);
  if (rows.length === 0) return <Text size="sm">The same as then.</Text>;
  return (
    <PlainTable
      label="What is otherwise now"
      className={classes.difference}
      head={['What', 'Then', 'Now']}
      hasRowHeads
      rows={rows.map(({ what, before, now }) => ({ key: what, cells: [what, before, now] }))}
    />
  );
}

interface Row {
  readonly what: string;
  readonly before: string;
  readonly now: string;
}

const MAX_RULES = 20;

/** True if enough of the original decision is stored. */
function isComparable(query: WholeQuery): boolean {
  return query.decision !== null || reachOf(query) === 'denied';
}

function differences(query: WholeQuery, now: Explanation): readonly Row[] {
  const { decision, rule } = query;
  const reach = reachOf(query);
  const taken = now.clusters.filter((each) => each.taken).map(({ cluster }) => cluster);
  const outcome = { what: 'Outcome', before: outcomeThen(query), now: outcomesNow[now.outcome] ?? now.outcome };
  // A denial makes all other decisions irrelevant.
  const deniedNow = now.outcome === 'denied' ? byText('no rule', now.rule) : 'nothing';
  const decidedThen = byText(decision?.decidedBy ?? 'nothing', decision?.rule);
  const decided =
    reach === 'denied'
      ? [{ what: 'Denied by', before: byText('no rule', rule), now: deniedNow }]
      : [
          { what: 'Routing group', before: decision?.group || 'none', now: now.routingGroup },
          { what: 'Decided by', before: decidedThen, now: byText(now.decidedBy, now.rule) },
        ];
  const others: Row[] = [outcome, ...decided].filter((row) => row.before !== row.now);
  const before = reach === 'taken' ? (decision?.cluster ?? '') : '';
  // A queued query might have reached any of them.
  const isOther = reach === 'dropped' ? false : before === '' ? taken.length > 0 : !taken.includes(before);
  if (isOther) others.push({ what: 'Cluster', before: before || 'none', now: taken.join(' or ') || 'none' });
  return decision === null ? others : [...others, ...ruleDifferences(decision, now.rules)];
}

/** Outcome of a query at that time, in the words of the explanation. */
function outcomeThen(query: WholeQuery): string {
  const reach = reachOf(query);
  if (reach === 'denied') return 'denied';
  if (reach !== 'refused') return 'routed';
  return query.outcome?.errorName === NO_CLUSTER ? outcomesNow.noCluster : 'refused';
}

/** Error of a submission without available clusters (docs/protocol.md#refusals). */
const NO_CLUSTER = 'NO_NODES_AVAILABLE';

const outcomesNow: Readonly<Record<Explanation['outcome'], string>> = {
  routed: 'routed',
  denied: 'denied',
  rejected: 'refused',
  noCluster: 'no cluster',
};

const byText = (by: string, rule: string | null | undefined): string => (rule == null ? by : `the rule ${rule}`);

function ruleDifferences({ rules: before }: QueryDecision, now: readonly RuleEffect[]): readonly Row[] {
  if (before === undefined) return [];
  const keyOf = ({ origin, rule }: Pick<RuleEffect, 'origin' | 'rule'>) => `${origin} ${rule}`;
  const [earlier, later] = [before, now].map((rules) => new Map(rules.map((each) => [keyOf(each), each])));
  const rows: Row[] = [];
  for (const key of new Set([...(earlier?.keys() ?? []), ...(later?.keys() ?? [])])) {
    const [one, other] = [earlier?.get(key), later?.get(key)];
    // Of many rules, rules without a match are not stored.
    const texts = [effectText(one, other), effectText(other, one)] as const;
    if (texts[0] === texts[1]) continue;
    rows.push({ what: `Rule ${one?.rule ?? other?.rule}`, before: texts[0], now: texts[1] });
  }
  return rows.slice(0, MAX_RULES);
}

function effectText(effect: RuleEffect | undefined, other: RuleEffect | undefined): string {
  if (effect === undefined)
    return other?.outcome === 'not-matched' ? lookOf('not-matched').label : 'was not there, or did not match';
  const put = Object.entries(effect.put ?? {}).map(([key, value]) => `${key} = ${value ?? 'null'}`);
  return [lookOf(effect.outcome).label, ...put].join(', ');
}

/** Describes the routing of a query. Decisions of a later version are shown unchanged. */
function describeDecision(decision: QueryDecision, query: WholeQuery): string {
  const { decidedBy, cluster, fallback = false, steps = [] } = decision;
  const by = Object.hasOwn(choices, decidedBy)
    ? choices[decidedBy](decision)
    : `The routing group ${decision.group} was decided by ${JSON.stringify(decidedBy)}, which this version does not know.`;
  if (reachOf(query) !== 'taken') return `${by} ${endText(query)}`.trim();
  if (decidedBy === 'transaction') return `${by} ${cluster} took it.`;
  if (steps.length > 0) return `${by} ${cluster} took the query.`;
  const then = fallback
    ? ` No backend of it could take the query; the default group served instead, by ${cluster}.`
    : ` ${cluster} was active and healthy, and took the query.`;
  return by + then;
}

/** Sentences for the origins of a group decision. */
const choices: Readonly<Record<QueryDecision['decidedBy'], (decision: QueryDecision) => string>> = {
  rule: ({ rule, pinned, group }) =>
    `The rule ${rule ?? 'that decided'} chose ${pinned === undefined ? `the routing group ${group}` : `the backend ${pinned}`}.`,
  header: ({ group }) => `The request's header named the routing group ${group}.`,
  external: ({ group }) => `The external rules service chose the routing group ${group}.`,
  default: ({ group }) => `Nothing named a routing group, so the default one, ${group}, was taken.`,
  transaction: ({ pinned, cluster }) =>
    `The statement belongs to a transaction that ${(pinned ?? cluster) || 'another backend'} began.`,
  cookie: ({ group }) => `The request's cookie belongs to a backend of the routing group ${group}.`,
  prefix: ({ group }) => `The request's URL belongs to a backend of the routing group ${group}.`,
};

/**
 * Progress of a query: received by a cluster, queued, ended in the queue (`dropped`), or rejected by the gateway or a
 * rule.
 */
type Reach = 'taken' | 'waiting' | 'dropped' | 'refused' | 'denied';

export function reachOf({ cluster, backendUrl, outcome }: WholeQuery): Reach {
  if (outcome?.state === 'REFUSED') return 'refused';
  if (outcome?.state === 'DENIED') return 'denied';
  // Queries of Trino Gateway have no cluster name, only its URL.
  if (cluster !== '' || backendUrl !== '') return 'taken';
  return outcome == null ? 'waiting' : 'dropped';
}

/** Describes the end of a query without a cluster, with the client's error; empty for others. */
function endText(query: WholeQuery): string {
  const { cluster, outcome } = query;
  const because = outcome?.errorMessage == null ? '.' : `: ${outcome.errorMessage.replace(/\.?$/, '.')}`;
  switch (reachOf(query)) {
    case 'refused':
      return cluster === ''
        ? `No backend took the query, as the gateway refused it${because}`
        : `${cluster} was chosen, but the gateway refused the query, or the backend's answer to it${because}`;
    case 'denied':
      return `No backend got the query${because}`;
    case 'dropped':
      return `No backend took the query, as it ended while it waited${because}`;
    case 'taken':
    case 'waiting':
      return '';
  }
}

export function noText(query: WholeQuery): string {
  return reachOf(query) === 'waiting' ? 'The text is kept once a cluster has the query.' : 'No text of it is stored.';
}
