import { Text } from '@mantine/core';
import type { WholeQuery } from '../../client/types.ts';
import { formatElapsed } from '../../components/amounts.ts';
import { Time } from '../../components/time.tsx';
import classes from './query.module.css';
import { reachOf } from './reach.ts';

interface Event {
  /** Milliseconds since 1970; null if only the order is known. */
  readonly at: number | null;
  readonly text: string;
  /** Milliseconds since the gateway received it, if known exactly. */
  readonly after?: number | undefined;
}

/** Stored events of a query, in order. */
export function Timeline({ query }: { readonly query: WholeQuery }) {
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
    if (lastSeen != null)
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
