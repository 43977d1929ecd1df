import type { IncomingMessage } from 'node:http';
import type { RouterStep } from '../../routing/routers/routerNames.ts';

/** Facts of a span; names as in OpenTelemetry's semantic conventions where those have one. */
export type TraceAttributes = Readonly<Record<string, string | number | boolean>>;

/** Steps of a decision, in the order in which they come. */
export type TraceStep = 'analysis' | RouterStep | 'admission' | 'choice' | 'lookup' | 'ask clusters';

/** The trace of one proxied request: one span, and one below it for each step, each ended by the next. */
export interface RequestTrace {
  /** Begins a step of the decision. */
  step(name: TraceStep): void;
  /**
   * Begins a request to a cluster.
   * @returns header lines that carry the trace there, names and values in turn
   */
  toCluster(cluster: string, proxyTo: string): readonly string[];
  /** Header lines that carry the current step's trace on, names and values in turn. */
  headers(): readonly string[];
  /** Notes that the current step failed. */
  noteFailure(reason: string): void;
  /** Adds facts to the request's own span. */
  note(attributes: TraceAttributes): void;
  /**
   * Ends the trace; later calls change nothing.
   * @param status of the client's answer; 0 when the client went away before its end
   * @param clusterStatus of the cluster's answer; 0 for none
   */
  end(status: number, clusterStatus: number): void;
}

/** Makes traces of requests. */
export interface Tracing {
  /**
   * Begins a request's trace, in the client's own where its `traceparent` says one (W3C Trace Context).
   * @param kind of the request, for the span's name: `submission`, `follow_up`, …
   */
  begin(request: IncomingMessage, method: string, kind: string): RequestTrace;
  /** Sends what is left, at most for some seconds, and ends. Never rejects. */
  close(): Promise<void>;
}

/** Headers of a trace: the gateway writes its own where it traces, else they pass untouched. */
export const traceHeaders = ['traceparent', 'tracestate'] as const;
