import type { IncomingHttpHeaders } from 'undici/types/header.js';

/**
 * Progress of a request at a cluster:
 * - `connecting`: given to the pool, and not written to a connection;
 * - `sent`: written to a connection, without a byte of a response;
 * - `answering`: at least the first byte of a response arrived.
 */
export type AttemptStage = 'connecting' | 'sent' | 'answering';

/** A buffered response that has not been forwarded yet. */
export interface HeldAnswer {
  /** `gathering`: each part is looked at; `deciding`: the decision is on its way, parts are only kept. */
  at: 'gathering' | 'deciding';
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly statusText: string | undefined;
  readonly chunks: Buffer[];
  /** Bytes of the chunks. */
  size: number;
  /** True if the end of the response came. */
  isWhole: boolean;
}

/**
 * State of an exchange:
 *
 * ```
 *          ┌──────────── send ────────────┐
 *          ▼                              │
 *  idle ─▶ connecting ─▶ sent ─▶ answering┼─▶ gathering ─▶ deciding ─▶ passing
 *              │          │         │     │       │           │          │
 *              └──────────┴─ error ─┴─────┼───────┴───────────┤          ▼
 *                                       failed             dropped      cut
 * ```
 *
 * `failed`: the attempt failed before the client had anything; it is sent again, or the gateway responds. `dropped`: a
 * buffered response is replaced by another one. `passing`: the client gets the response. `cut`: the rest of it could
 * not be sent. From each of them the exchange becomes `gone` when the client disconnects, except from `cut`. `cut` and
 * `gone` are final.
 */
export type ExchangeState = HeldAnswer | { readonly at: Exclude<ExchangeStateName, HeldAnswer['at']> };

export type ExchangeStateName =
  | 'idle'
  | AttemptStage
  | 'gathering'
  | 'deciding'
  | 'passing'
  | 'failed'
  | 'dropped'
  | 'cut'
  | 'gone';

/** The states that hold nothing: one object each, as every request passes through some of them. */
export const states = {
  idle: { at: 'idle' },
  connecting: { at: 'connecting' },
  sent: { at: 'sent' },
  answering: { at: 'answering' },
  passing: { at: 'passing' },
  failed: { at: 'failed' },
  dropped: { at: 'dropped' },
  cut: { at: 'cut' },
  gone: { at: 'gone' },
} as const satisfies Readonly<Record<string, ExchangeState>>;

export function stageOf({ at }: ExchangeState): AttemptStage {
  return at === 'connecting' || at === 'sent' ? at : 'answering';
}

/** The held response; null in all other states. */
export function heldAnswerOf(state: ExchangeState): HeldAnswer | null {
  return state.at === 'gathering' || state.at === 'deciding' ? state : null;
}

/** True if nothing more can reach the client. */
export function isFinal({ at }: ExchangeState): boolean {
  return at === 'cut' || at === 'gone';
}
