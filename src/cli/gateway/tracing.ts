import { hostname } from 'node:os';
import type { Tracing } from '../../gateway/tracing/openTelemetry.ts';
import type { GatewayContext } from './context.ts';

/** Starts tracing; null if disabled: its modules are not loaded then. */
export async function openTracing(context: GatewayContext): Promise<Tracing | null> {
  const { config, version, names, logger, clock, onClose } = context;
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
  onClose(() => tracing.close());
  return tracing;
}
