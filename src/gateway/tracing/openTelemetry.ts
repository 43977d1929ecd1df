import type { IncomingMessage } from 'node:http';
import {
  type Attributes,
  type Context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { ExportResultCode, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-base';
import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import type { RouterStep } from '../../routing/groupRouter.ts';

export interface TracingOptions {
  /** OTLP over HTTP; without a path, `/v1/traces` is added. */
  readonly endpoint: string;
  /** Share of sampled traces that begin here, 0 to 1; a client's own trace decides itself. */
  readonly samplingRatio: number;
  readonly serviceName: string;
  readonly version: string;
  readonly instance: string;
  readonly logger: Logger;
  readonly clock: Clock;
}

const SEND_INTERVAL_MS = 1_000;
const SEND_TIMEOUT_MS = 3_000;
/** Maximum number of spans in the send queue; further ones are dropped. */
const MAX_WAITING = 8_192;
/** Minimum interval of log messages about failures to send. */
const LOG_INTERVAL_MS = 60_000;

const propagator = new W3CTraceContextPropagator();

/** Traces by OpenTelemetry, sent as OTLP over HTTP in JSON. Nothing is registered globally. */
export function openTelemetryTracing(options: TracingOptions) {
  const { serviceName, version, instance, samplingRatio } = options;
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({
      'service.name': serviceName,
      'service.version': version,
      'service.instance.id': instance,
    }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(samplingRatio) }),
    spanProcessors: [
      new BatchSpanProcessor(exporter(options), {
        scheduledDelayMillis: SEND_INTERVAL_MS,
        exportTimeoutMillis: SEND_TIMEOUT_MS,
        maxQueueSize: MAX_WAITING,
      }),
    ],
  });
  const tracer = provider.getTracer(serviceName, version);
  return {
    /**
     * Begins a request's trace, within the client's `traceparent` if present (W3C Trace Context).
     * @param kind of the request, for the span's name: `submission`, `follow_up`, …
     */
    begin: (request: IncomingMessage, method: string, kind: string) => new RequestTrace(tracer, request, method, kind),
    /** Flushes for at most some seconds, and stops. Never rejects. */
    close: () => provider.shutdown().catch(() => undefined),
  };
}

function exporter({ endpoint, logger, clock }: TracingOptions): SpanExporter {
  const url = urlOf(endpoint);
  const sender = new OTLPTraceExporter({ url, timeoutMillis: SEND_TIMEOUT_MS });
  let lastLogged = Number.NEGATIVE_INFINITY;
  return {
    export: (spans, callback) =>
      sender.export(spans, (result) => {
        if (result.code !== ExportResultCode.SUCCESS && clock.monotonic() - lastLogged >= LOG_INTERVAL_MS) {
          lastLogged = clock.monotonic();
          logger.warn({ endpoint: url, reason: result.error?.message }, 'failed to send traces');
        }
        callback(result);
      }),
    forceFlush: () => sender.forceFlush(),
    shutdown: () => sender.shutdown(),
  };
}

function urlOf(endpoint: string): string {
  const url = new URL(endpoint);
  if (url.pathname === '/') url.pathname = '/v1/traces';
  return url.href;
}

/** Reads the headers of a request; repeated `tracestate` lines are one list (W3C Trace Context §3.3.1.1). */
const requestHeaders = {
  keys: ({ headers }: IncomingMessage) => Object.keys(headers),
  get: ({ headers }: IncomingMessage, name: string) => {
    const value = headers[name];
    return Array.isArray(value) ? value.join(',') : value;
  },
};
const lineSetter = { set: (lines: string[], name: string, value: string) => void lines.push(name, value) };

/** Steps of a decision in order. */
type TraceStep = 'analysis' | RouterStep | 'admission' | 'choice' | 'lookup' | 'ask clusters';

export type Tracing = ReturnType<typeof openTelemetryTracing>;

/** The trace of one proxied request: one span, with a child span for each step, each ended by the next. */
export class RequestTrace {
  readonly #tracer: Tracer;
  readonly #span: Span;
  readonly #context: Context;
  #step: Span | null = null;
  #toCluster = false;
  #ended = false;

  constructor(tracer: Tracer, request: IncomingMessage, method: string, kind: string) {
    this.#tracer = tracer;
    const parent = propagator.extract(ROOT_CONTEXT, request, requestHeaders);
    const attributes = { 'http.request.method': method, 'engine_gateway.request.kind': kind };
    this.#span = tracer.startSpan(`${method} ${kind}`, { kind: SpanKind.SERVER, attributes }, parent);
    // With the parent's tracestate, which the new context continues.
    this.#context = trace.setSpan(parent, this.#span);
  }

  step(name: TraceStep): void {
    this.#begin(name, SpanKind.INTERNAL, {});
    this.#toCluster = false;
  }

  /**
   * Begins a request to a cluster.
   * @returns trace headers for it, names and values in turn
   */
  toCluster(cluster: string, proxyTo: string): readonly string[] {
    const { hostname, port, protocol } = new URL(proxyTo);
    this.#begin('cluster', SpanKind.CLIENT, {
      'engine_gateway.cluster': cluster,
      'server.address': hostname,
      'server.port': port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
    });
    this.#toCluster = true;
    return this.headers();
  }

  /** Headers that propagate the current step's trace, names and values in turn. */
  headers(): readonly string[] {
    const lines: string[] = [];
    const current = this.#step === null ? this.#context : trace.setSpan(this.#context, this.#step);
    propagator.inject(current, lines, lineSetter);
    return lines;
  }

  /** Marks the current step as failed. */
  noteFailure(reason: string): void {
    (this.#step ?? this.#span).setStatus({ code: SpanStatusCode.ERROR, message: reason });
  }

  /** Adds attributes to the request's span; names of OpenTelemetry's semantic conventions if available. */
  note(attributes: Attributes): void {
    this.#span.setAttributes(attributes);
  }

  /**
   * Ends the trace; idempotent.
   * @param status of the client's response; 0 if the client disconnected before
   * @param clusterStatus of the cluster's response; 0 for none
   */
  end(status: number, clusterStatus: number): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#step !== null) {
      if (this.#toCluster && clusterStatus > 0) this.#step.setAttribute('http.response.status_code', clusterStatus);
      this.#step.end();
    }
    if (status === 0) this.#span.setAttribute('engine_gateway.client_gone', true);
    else this.#span.setAttribute('http.response.status_code', status);
    if (status >= 500) this.#span.setStatus({ code: SpanStatusCode.ERROR });
    this.#span.end();
  }

  #begin(name: string, kind: SpanKind, attributes: Attributes): void {
    this.#step?.end();
    this.#step = this.#tracer.startSpan(name, { kind, attributes }, this.#context);
  }
}
