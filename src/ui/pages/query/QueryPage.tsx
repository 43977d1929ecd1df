import { Anchor, Stack, Text } from '@mantine/core';
import sql from 'highlight.js/lib/languages/sql';
import { createLowlight } from 'lowlight';
import { memo, type ReactNode } from 'react';
import { useParams } from 'react-router';
import type { NameMapping } from '../../../model/requestUser.ts';
import type { StoredUserGroups } from '../../../routing/storedDecision.ts';
import { useEnd } from '../../client/changes.ts';
import { isGatewayId, useRunningQuery, useWholeQuery } from '../../client/resources.ts';
import type { OutcomeView, WholeQuery } from '../../client/types.ts';
import { CopyText, formatBytes, formatElapsed, Notice, To } from '../../components/elements.tsx';
import { type Fact, FactList, Inputs, OutcomeBadge } from '../../components/facts.tsx';
import { EmptyState, PageFrame, Panel, RequestState } from '../../components/frame.tsx';
import { clusterAddress, DigestName, groupAddress, Names, RuleName } from '../../components/names.tsx';
import { Ago, Time } from '../../components/time.tsx';
import { EndQuery } from '../queue/tables.tsx';
import { noText, Reasons, reachOf } from './Decision.tsx';
import classes from './query.module.css';

/** All data of a query: outcome, times, routing, and text. */
export default function QueryPage() {
  const { queryId = '' } = useParams();
  const query = useWholeQuery(queryId);
  return (
    <PageFrame title={`Query ${queryId}`} actions={<CopyText text={queryId} what="query id" />}>
      <RequestState query={query} label="Loading the query" missing={<NoQuery queryId={queryId} />}>
        {(data) => <Whole key={data.queryId} query={data} />}
      </RequestState>
    </PageFrame>
  );
}

function NoQuery({ queryId }: { readonly queryId: string }) {
  return (
    <EmptyState title="No query of this id is in the history that you may see. It keeps queries for a time, and has new ones after some seconds.">
      <To address={`/history?queryId=${encodeURIComponent(queryId)}`}>To the history</To>
      {isGatewayId(queryId) && <To address="/queue">To the queries that wait for a cluster</To>}
    </EmptyState>
  );
}

function Whole({ query }: { readonly query: WholeQuery }) {
  return (
    <>
      <div className={classes.columns}>
        <Panel title="Outcome">
          <Outcome query={query} />
        </Panel>
        <Panel title="Timeline">
          <Timeline query={query} />
        </Panel>
      </div>
      <Panel title="About it">
        <Facts query={query} />
      </Panel>
      <Reasons query={query} />
      <Inputs inputs={query.inputs} />
      <Panel title="SQL" actions={<CopyText text={query.queryText} what="SQL" />}>
        {query.queryText === '' ? (
          noText(query)
        ) : (
          // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1)
          <section className={classes.text} tabIndex={0} aria-label="Text of the query">
            <SqlText text={query.queryText} />
          </section>
        )}
      </Panel>
    </>
  );
}

function Facts({ query }: { readonly query: WholeQuery }) {
  const { queryId, queuedAs, user, source, routingGroup, cluster, backendUrl, externalUrl, rule } = query;
  const reach = reachOf(query);
  const isTurnedDown = reach === 'refused' || reach === 'denied';
  const engine = externalUrl ?? backendUrl;
  const group = routingGroup !== null && <To address={groupAddress(routingGroup)}>{routingGroup}</To>;
  const chosen = (
    <span key="cluster">
      <To address={clusterAddress(cluster)}>{cluster}</To>
      {isTurnedDown && ' was chosen'}
    </span>
  );
  const enginePage = (
    <Anchor
      key="engine"
      href={`${engine}/ui/query.html?${encodeURIComponent(queryId)}`}
      target="_blank"
      rel="noreferrer"
      size="sm"
      underline="always"
    >
      the engine's page
    </Anchor>
  );
  const path = query.bypassed ? 'not through the gateway: its cluster reported it' : undefined;
  const noCluster = backendUrl || (reach === 'waiting' ? 'none yet' : 'none');
  const digest = query.outcome?.digest;
  const facts: readonly Fact[] = [
    ['Query id', queryId],
    ['Waited as', queuedAs === null || queuedAs === queryId ? undefined : queuedAs],
    ['User', user ?? 'not known'],
    ...identityOf(query.decision),
    ['Source', source ?? 'none was sent'],
    ['Routing group', group || (isTurnedDown ? 'none was decided' : 'not known')],
    ['Backend', cluster === '' ? noCluster : chosen],
    ['Sent', path],
    ['Rule', rule == null ? undefined : <RuleName key="rule" name={rule} />],
    ['Statement', digest == null ? undefined : <DigestName key="digest" name={digest} />],
    ['At the engine', engine === '' || queuedAs === queryId ? undefined : enginePage],
  ];
  return <FactList facts={facts} />;
}

/** The name before the user mapping, and the groups from each source. */
function identityOf(decision: WholeQuery['decision']): readonly Fact[] {
  const { userMapping, userGroups = [] } = decision ?? {};
  const mapping =
    userMapping === undefined ? [] : [['Name before mapping', <Mapping key="mapping" {...userMapping} />] as const];
  const groups = userGroups.map((said) => [`Groups: ${said.source}`, <Groups key="groups" {...said} />] as const);
  return [...mapping, ...groups];
}

function Mapping({ from, isForwarded }: NameMapping) {
  return isForwarded ? `${from}; its cluster got the mapped name` : from;
}

function Groups({ groups, more, note }: StoredUserGroups) {
  const address = (group: string) => `/history?userGroup=${encodeURIComponent(group)}`;
  return (
    <>
      {groups.length === 0 && 'none'}
      <Names names={groups} of={(group) => <To address={address(group)}>{group}</To>} />
      {more !== undefined && ` and ${more} more`}
      {note !== undefined && ` (${note})`}
    </>
  );
}

function meaningOf(query: WholeQuery, state: OutcomeView['state']): string {
  const isDropped = reachOf(query) === 'dropped';
  switch (state) {
    case 'FINISHED':
      return query.bypassed ? 'It finished.' : 'It finished, and its client has got the last page.';
    case 'FAILED':
      return 'It failed.';
    case 'CANCELLED':
      return isDropped ? 'It was cancelled while it waited: no cluster has got it.' : 'It was cancelled.';
    case 'ABANDONED':
      return isDropped
        ? 'Its client stopped asking for it while it waited: no cluster has got it.'
        : 'Its client stopped asking for results before the last page.';
    case 'REFUSED':
      return query.cluster === ''
        ? 'The gateway refused it: no cluster has got it.'
        : `The gateway refused it, or the answer of ${query.cluster} to it.`;
    case 'DENIED':
      return 'A rule denied it: no cluster has got it.';
    case 'RETRIED':
      return 'Its cluster did not finish it: another one continued it.';
    case 'LOST':
      return isDropped ? 'It was lost while it waited.' : 'It was lost with its cluster.';
  }
}

function Outcome({ query }: { readonly query: WholeQuery }) {
  const { outcome } = query;
  if (outcome === null) return <Unended query={query} />;
  const isTaken = reachOf(query) === 'taken';
  return (
    <Stack gap="xs" align="flex-start">
      <OutcomeBadge state={outcome.state} size="lg" />
      <Text size="sm">{meaningOf(query, outcome.state)}</Text>
      {(outcome.errorName !== null || outcome.errorMessage !== null) && (
        <Notice tone="error" role="note" title={errorTitle(outcome)}>
          <Text size="sm" className={classes.message}>
            {outcome.errorMessage ?? 'The cluster gave no message.'}
          </Text>
        </Notice>
      )}
      <FactList
        facts={figures.map(([name, field, textOf]) => {
          const amount = outcome[field];
          // Fewer if no cluster received it.
          return [name, amount !== null ? textOf(amount) : isTaken ? 'not known' : undefined];
        })}
      />
    </Stack>
  );
}

/** State of an unfinished query; a running one has a button that ends it. */
function Unended({ query }: { readonly query: WholeQuery }) {
  const isWaiting = reachOf(query) === 'waiting';
  const isSought = query.cluster !== '' && !isWaiting;
  const running = useRunningQuery(isSought ? query : null);
  const end = useEnd();
  if (isWaiting) return <Waiting query={query} />;
  if (running == null) {
    return (
      <Text size="sm">
        {running === undefined
          ? 'Not known: it still runs, or nobody has followed it to its end here.'
          : 'Not known: it began only seconds ago, or nobody has followed it to its end here.'}
      </Text>
    );
  }
  return (
    <Stack gap="xs" align="flex-start">
      <Text size="sm">
        It runs, since <Ago at={Date.parse(running.since)} />; its client asked for results{' '}
        <Ago at={Date.parse(running.lastRequest)} />.
      </Text>
      <EndQuery query={running} onEnd={end} />
    </Stack>
  );
}

function Waiting({ query: { queue } }: { readonly query: WholeQuery }) {
  if (queue === null) return <Text size="sm">It waits for a cluster.</Text>;
  const { position, groupWaiting, movedFirst, reason } = queue;
  const place =
    position === null
      ? 'being sent to a cluster'
      : `${position} of ${groupWaiting}${movedFirst ? ', moved first' : ''}`;
  return (
    <Stack gap="xs" align="flex-start">
      <Text size="sm">It waits for a cluster.</Text>
      <FactList
        facts={[
          ['Place', place],
          ['Why', reason],
        ]}
      />
    </Stack>
  );
}

const countText = (count: number): string => count.toLocaleString('en');

const figures = [
  ['Elapsed', 'elapsedMillis', formatElapsed],
  ['Queued at the gateway', 'gatewayQueuedMillis', formatElapsed],
  ['Queued at the engine', 'queuedMillis', formatElapsed],
  ['CPU', 'cpuMillis', formatElapsed],
  ['Rows processed', 'processedRows', countText],
  ['Data processed', 'processedBytes', formatBytes],
  ['Peak memory', 'peakMemoryBytes', formatBytes],
  ['Result', 'resultBytes', formatBytes],
  ['Pages of the result', 'pages', countText],
] as const;

function errorTitle({ errorName, errorType, errorCode }: OutcomeView): string {
  const kind = [errorType, errorCode].filter((part) => part != null).join(', ');
  return `${errorName ?? 'Error'}${kind === '' ? '' : ` (${kind})`}`;
}

interface Event {
  /** Milliseconds since 1970; null if only the order is known. */
  readonly at: number | null;
  readonly text: string;
  /** Milliseconds since the gateway received it, if known exactly. */
  readonly after?: number | undefined;
}

/** Stored events of a query, in order. */
function Timeline({ query }: { readonly query: WholeQuery }) {
  const events = [...beforeCluster(query), ...atCluster(query), ...endOf(query)];
  return (
    <ol className={classes.timeline} aria-label="Timeline">
      {events.map(({ at, text, after }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: events have no other identity than their place
        <li key={index}>
          {at === null ? <span>–</span> : <Time at={at} />}
          <span>
            {text}
            {after !== undefined && (
              <Text span size="xs" c="dimmed">
                {' '}
                {formatElapsed(after)} after it was received
              </Text>
            )}
          </span>
        </li>
      ))}
    </ol>
  );
}

function beforeCluster(query: WholeQuery): readonly Event[] {
  const { received, decision, queuedAs, queryId, outcome } = query;
  const { receivedAt, analysed, decided } = decision?.times ?? {};
  const events: Event[] = [];
  const since = (after: number | undefined) => ({
    at: after === undefined || receivedAt === undefined ? null : receivedAt + after,
    after,
  });
  if (received !== null) {
    const text = `The gateway had it, and put it into the queue as ${queuedAs ?? queryId}.`;
    events.push({ at: Date.parse(received), text });
    if (reachOf(query) === 'waiting') events.push({ at: null, text: 'It waits for a cluster.' });
  } else if (receivedAt !== undefined) events.push({ at: receivedAt, text: 'The gateway received it.' });
  if (analysed !== undefined) events.push({ ...since(analysed), text: 'Its user and its text were analysed.' });
  if (decision !== null && decision.group !== '') {
    const by = decision.rule === undefined ? `by ${decision.decidedBy}` : `by the rule ${decision.rule}`;
    events.push({ ...since(decided), text: `Its routing group was decided: ${decision.group}, ${by}.` });
  }
  const waited = outcome?.gatewayQueuedMillis ?? 0;
  const isDropped = reachOf(query) === 'dropped';
  const as = isDropped ? `, in the queue as ${queuedAs ?? queryId}` : '';
  if (waited > 0 || isDropped)
    events.push({ at: null, text: `It waited ${formatElapsed(waited)} at the gateway${as}.` });
  for (const { cluster: tried, error } of decision?.attempts ?? [])
    events.push({ at: null, text: `${tried} was tried, and did not take it: ${error}` });
  return events;
}

/** Later events, ordered by time: the engine's and the gateway's clocks may differ. */
function atCluster(query: WholeQuery): readonly Event[] {
  if (reachOf(query) !== 'taken') return [];
  const { received, created, cluster, backendUrl, decision, outcome } = query;
  const submitted = Date.parse(created);
  const came = received === null ? null : Date.parse(received);
  const waited = came === null || submitted < came ? '' : `, after ${formatElapsed(submitted - came)}`;
  const had: Event = {
    at: submitted,
    text: `${cluster || backendUrl} had it${waited}.`,
    after: came === null ? decision?.times?.submitted : undefined,
  };
  if (outcome == null) return [had];
  const { elapsedMillis, lastSeen, state, queuedMillis, firstRowMillis } = outcome;
  const later: { at: number; text: string }[] = [];
  const add = (after: number, text: string) =>
    later.push({ at: submitted + after, text: text.replace('%', formatElapsed(after)) });
  if (queuedMillis != null && queuedMillis > 0) add(queuedMillis, "It left the engine's queue, after %.");
  if (firstRowMillis != null) add(firstRowMillis, 'Its client had the first row, after %.');
  if (elapsedMillis != null) {
    add(elapsedMillis, `It ended after %: ${state.toLowerCase()}.`);
    if (lastSeen != null && !query.bypassed)
      later.push({ at: Math.max(Date.parse(lastSeen), submitted), text: 'Its client had the last answer.' });
  }
  return [had, ...later.sort((one, other) => one.at - other.at)];
}

function endOf(query: WholeQuery): readonly Event[] {
  const { outcome } = query;
  if (outcome == null) return [];
  const { elapsedMillis, lastSeen, state } = outcome;
  const reach = reachOf(query);
  if (reach === 'taken' && elapsedMillis != null) return [];
  const text = reach === 'taken' || reach === 'dropped' ? `It ended: ${state.toLowerCase()}.` : turnedDown(query);
  return [{ at: lastSeen == null ? null : Date.parse(lastSeen), text }];
}

function turnedDown({ cluster, rule, outcome }: WholeQuery): string {
  if (outcome?.state === 'DENIED') return rule == null ? 'It was denied.' : `The rule ${rule} denied it.`;
  return cluster === '' ? 'The gateway refused it.' : `${cluster} was chosen, and the gateway refused it.`;
}

const lowlight = createLowlight({ sql });

/** Only this many characters are coloured: colouring takes the browser a second for each million characters. */
const MAX_COLOURED_LENGTH = 50_000;

/** SQL with its words coloured: keywords, names of functions, literals, comments. */
const SqlText = memo(function SqlText({ text }: { readonly text: string }) {
  const coloured = text.slice(0, MAX_COLOURED_LENGTH);
  return (
    <pre className={classes.sql}>
      {lowlight.highlight('sql', coloured).children.map(nodeOf)}
      {text.slice(MAX_COLOURED_LENGTH)}
    </pre>
  );
});

type Node = ReturnType<typeof lowlight.highlight>['children'][number];

function nodeOf(node: Node, index: number): ReactNode {
  if (node.type === 'text') return node.value;
  if (node.type !== 'element') return null;
  const names = Array.isArray(node.properties.className) ? node.properties.className.map(String) : [];
  const kind = names.find((name) => name.startsWith('hljs-'))?.slice('hljs-'.length);
  return (
    <span key={index} data-kind={kind}>
      {node.children.map((child, at) => nodeOf(child, at))}
    </span>
  );
}
