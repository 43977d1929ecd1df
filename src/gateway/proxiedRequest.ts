import type { IncomingMessage, ServerResponse } from 'node:http';
import type { PathKind, RequestTarget } from '../routing/proxiedPaths.ts';
import type { RequestKind } from './metrics/dataPlaneMetrics.ts';
import type { RequestTrace } from './tracing/openTelemetry.ts';

export interface ProxiedRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly method: string;
  readonly target: RequestTarget;
  readonly rawTarget: string;
  /** Key of a cluster in front of the path, or null. */
  readonly clusterKey: string | null;
  readonly pathKind: PathKind;
  /** Below a statement path: refusals come in the engine's protocol. */
  readonly statementPath: boolean;
  readonly kind: RequestKind;
  /** Prefixes of the names under which the client sends headers of the engine protocol (`ClientNames`). */
  readonly clientPrefixes: readonly string[];
  /** User of the client's certificate, in whose name clusters are asked; null without one, and for pages and probes. */
  readonly certificateUser: string | null;
  /** Name that clusters get in place of what the client states; left out for none. */
  forwardedUser?: string;
  /** Monotonic milliseconds. */
  readonly startedAt: number;
  /** Monotonic milliseconds at which it was analyzed; left out before. */
  analysedAt?: number;
  /** Monotonic milliseconds at which its routers had decided; left out before. */
  decidedAt?: number;
  /** Null: traces are off. */
  readonly trace: RequestTrace | null;
  ended: boolean;
}
