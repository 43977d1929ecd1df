/**
 * State of a queued query. `submitting`: its request may be on the way to a cluster. `submitted`: a cluster has it.
 * `failed`: its client gets an error. `cancelled`: its row is deleted.
 */
export type QueuedQueryState = 'waiting' | 'submitting' | 'submitted' | 'failed' | 'cancelled';

/**
 * A change of a queued query by the replica that holds it, or in place of a dead one: `adopt` takes it over with its
 * position, `begin` comes before its request is sent, `putBack` after no cluster took it, `respond` with the response of
 * a cluster, `fail` if it may have run or no cluster took it, `reject` and `cancel` while it waits.
 */
export type QueuedQueryEvent = 'adopt' | 'begin' | 'putBack' | 'respond' | 'fail' | 'reject' | 'cancel';

const transitions: Readonly<Record<QueuedQueryState, Partial<Record<QueuedQueryEvent, QueuedQueryState>>>> = {
  waiting: { adopt: 'waiting', begin: 'submitting', reject: 'failed', cancel: 'cancelled' },
  submitting: { putBack: 'waiting', respond: 'submitted', fail: 'failed' },
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
