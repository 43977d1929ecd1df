/**
 * State of a queued query. `submitting`: its request may be on the way to a cluster. `running`: a cluster has it, and
 * another one can take over, as its client has no rows (docs/survival.md). `submitted`: a cluster has it for good.
 * `failed`: its client gets an error. `cancelled`: its row is deleted.
 */
export type QueuedQueryState = 'waiting' | 'submitting' | 'running' | 'submitted' | 'failed' | 'cancelled';

/**
 * A change of a queued query by the replica that holds it, or in place of a dead one: `adopt` takes it over with its
 * position, `begin` comes before its request is sent, `putBack` after no cluster took it, `respond` with the response of
 * a cluster, `accept` with that of a query that another cluster can take over, `fail` if it may have run or no cluster
 * took it, `reject` while it waits, `cancel` by its client. `retry` comes after its cluster lost it, `settle` once its
 * client gets rows or the end.
 */
export type QueuedQueryEvent =
  | ('adopt' | 'begin' | 'putBack' | 'respond' | 'accept')
  | ('fail' | 'reject' | 'cancel' | 'retry' | 'settle');

const transitions: Readonly<Record<QueuedQueryState, Partial<Record<QueuedQueryEvent, QueuedQueryState>>>> = {
  waiting: { adopt: 'waiting', begin: 'submitting', reject: 'failed', cancel: 'cancelled' },
  submitting: { putBack: 'waiting', respond: 'submitted', accept: 'running', fail: 'failed' },
  running: { retry: 'waiting', settle: 'submitted', cancel: 'cancelled' },
  submitted: {},
  failed: {},
  cancelled: {},
};

/** The state after an event; null if the event is impossible in this state. */
export function next(state: QueuedQueryState, event: QueuedQueryEvent): QueuedQueryState | null {
  return transitions[state][event] ?? null;
}

/** The one state that an event leads to. */
export function stateAfter(event: QueuedQueryEvent): QueuedQueryState {
  for (const state of Object.values(transitions)) if (state[event] !== undefined) return state[event];
  throw new Error(`no state has event ${event}`);
}
