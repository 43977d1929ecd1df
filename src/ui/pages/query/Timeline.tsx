import type { ReactNode } from 'react';
import type { WholeQuery } from '../../client/queries.ts';
import { durationText } from '../../components/amounts.ts';
import { Time } from '../../components/time.tsx';
import classes from './query.module.css';

interface Event {
  /** Milliseconds since 1970; null where only the order is known. */
  readonly at: number | null;
  readonly text: ReactNode;
}

/** What happened to a query, in order, as far as it is stored. */
export function Timeline({ query }: { readonly query: WholeQuery }) {
  return (
    <ol className={classes.timeline} aria-label="Timeline">
      {eventsOf(query).map(({ at, text }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: events have no other identity than their place
        <li key={index}>
          {at === null ? <span>–</span> : <Time at={at} />}
          <span>{text}</span>
        </li>
      ))}
    </ol>
  );
}

function eventsOf({ received, created, cluster, decision, queuedAs, queryId, outcome }: WholeQuery): readonly Event[] {
  const events: Event[] = [];
  const waits = cluster === '' && outcome == null;
  const submitted = Date.parse(created);
  const came = received === null ? null : Date.parse(received);
  if (came !== null) {
    events.push({ at: came, text: `The gateway had it, and put it into the queue as ${queuedAs ?? queryId}.` });
    if (waits) events.push({ at: null, text: 'It waits for a cluster.' });
  }
  if (decision !== null) {
    const by = decision.rule === undefined ? `by ${decision.decidedBy}` : `by the rule ${decision.rule}`;
    events.push({ at: null, text: `Its routing group was decided: ${decision.group}, ${by}.` });
    for (const { cluster: tried, error } of decision.attempts ?? [])
      events.push({ at: null, text: `${tried} was tried, and did not take it: ${error}` });
  }
  if (cluster !== '') {
    const waited = came === null || submitted < came ? '' : `, after ${durationText(submitted - came)}`;
    events.push({ at: submitted, text: `${cluster} had it${waited}.` });
  }
  if (outcome != null) {
    const { elapsedMillis, lastSeen, state } = outcome;
    const isAtCluster = cluster !== '' && elapsedMillis != null;
    const after = isAtCluster ? ` after ${durationText(elapsedMillis)}` : '';
    const lastAt = lastSeen == null ? null : Date.parse(lastSeen);
    events.push({
      at: isAtCluster ? submitted + elapsedMillis : lastAt,
      text: `It ended${after}: ${state.toLowerCase()}.`,
    });
    if (isAtCluster && lastAt !== null)
      events.push({ at: Math.max(lastAt, submitted), text: 'Its client had the last answer.' });
  }
  return events;
}
