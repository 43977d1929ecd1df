import { hostname } from 'node:os';
import type { Tracing } from '../../gateway/tracing/requestTrace.ts';
import type { Frame } from './frame.ts';

/** Begins tracing; null where it is off, and then nothing of it is even loaded. */
export async function openTracing({ config, version, names, logger, clock, undo }: Frame): Promise<Tracing | null> {
  const { serverConfig } = config;
  if (!serverConfig['tracing.enabled']) return null;
  const { openTelemetryTracing } = await import('../../gateway/tracing/openTelemetry.ts');
  const tracing = openTelemetryTracing({
    endpoint: serverConfig['otel.exporter.endpoint'],
    samplingRatio: serverConfig['tracing.sampling-ratio'],
    serviceName: names.gatewayPath.slice(1),
    version,
    instance: hostname(),
    logger,
    clock,
  });
  undo(() => tracing.close());
  return tracing;
}
