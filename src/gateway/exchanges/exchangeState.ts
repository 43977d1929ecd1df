import type { IncomingHttpHeaders } from 'undici/types/header.js';

/**
 * How far a request got with the cluster that is asked:
 * - `connecting`: given to the pool, and not written to a connection;
 * - `sent`: written to a connection, without a byte of an answer;
 * - `answering`: at least the first byte of an answer came.
 */
export type AttemptStage = 'connecting' | 'sent' | 'answering';

/** An answer whose head came, and of which the client has nothing before somebody decides about it. */
export interface HeldAnswer {
  /** `gathering`: each part is looked at; `deciding`: the decision is on its way, parts are only kept. */
  at: 'gathering' | 'deciding';
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly statusText: string | undefined;
  readonly chunks: Buffer[];
  /** Bytes of the chunks. */
  size: number;
  /** Whether the end of the answer came. */
  isWhole: boolean;
}

/**
 * Where an exchange is:
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
 * `failed`: the attempt failed before the client had anything; it is sent again, or the gateway answers. `dropped`: a held
 * answer is given up for another one. `passing`: the client gets the answer. `cut`: the rest of it could not be sent. From
 * each of them the exchange becomes `gone` when the client goes away, except from `cut`. `cut` and `gone` are final.
 */
export type ExchangeState = HeldAnswer | { readonly at: Exclude<ExchangeStateName, HeldAnswer['at']> };

/** A state of an exchange by name. */
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

/** How far the attempt got that an exchange is in. */
export function stageOf({ at }: ExchangeState): AttemptStage {
  return at === 'connecting' || at === 'sent' ? at : 'answering';
}

/** The held answer; null in all other states. */
export function heldAnswerOf(state: ExchangeState): HeldAnswer | null {
  return state.at === 'gathering' || state.at === 'deciding' ? state : null;
}

/** Whether nothing more can reach the client. */
export function isFinal({ at }: ExchangeState): boolean {
  return at === 'cut' || at === 'gone';
}
