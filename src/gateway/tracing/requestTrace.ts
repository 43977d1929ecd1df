import type { IncomingMessage } from 'node:http';
import type { RouterStep } from '../../routing/groupRouter.ts';

/** Attributes of a span; names of OpenTelemetry's semantic conventions if available. */
export type TraceAttributes = Readonly<Record<string, string | number | boolean>>;

/** Steps of a decision in order. */
export type TraceStep = 'analysis' | RouterStep | 'admission' | 'choice' | 'lookup' | 'ask clusters';

/** The trace of one proxied request: one span, with a child span for each step, each ended by the next. */
export interface RequestTrace {
  step(name: TraceStep): void;
  /**
   * Begins a request to a cluster.
   * @returns trace headers for it, names and values in turn
   */
  toCluster(cluster: string, proxyTo: string): readonly string[];
  /** Headers that propagate the current step's trace, names and values in turn. */
  headers(): readonly string[];
  /** Marks the current step as failed. */
  noteFailure(reason: string): void;
  /** Adds attributes to the request's span. */
  note(attributes: TraceAttributes): void;
  /**
   * Ends the trace; idempotent.
   * @param status of the client's response; 0 if the client disconnected before
   * @param clusterStatus of the cluster's response; 0 for none
   */
  end(status: number, clusterStatus: number): void;
}

export interface Tracing {
  /**
   * Begins a request's trace, within the client's `traceparent` if present (W3C Trace Context).
   * @param kind of the request, for the span's name: `submission`, `follow_up`, …
   */
  begin(request: IncomingMessage, method: string, kind: string): RequestTrace;
  /** Flushes for at most some seconds, and stops. Never rejects. */
  close(): Promise<void>;
}

/** Trace headers: replaced if tracing is enabled, else forwarded unchanged. */
export const traceHeaders = ['traceparent', 'tracestate'] as const;
