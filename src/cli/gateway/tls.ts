import { httpClientSettings } from '../../config/httpClient.ts';
import type { HttpClient } from '../../config/schema/serverConfig.ts';
import { AddressGuard } from '../../gateway/tls/addressGuard.ts';
import { ClusterTls, type ClusterTlsOptions, clusterAtOrigin } from '../../gateway/tls/clusterTls.ts';
import { type TlsMetrics, type TlsUse, type TlsWatch, watchTls } from '../../gateway/tls/tlsWatch.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { clusterPolicy } from '../settings.ts';
import { incomingTlsFiles, outgoingTlsFiles } from '../tlsSettings.ts';
import type { GatewayContext } from './context.ts';

/** TLS of the gateway's clients: each with the certificate files of its prefix in `serverConfig`. */
export interface OutgoingTls {
  readonly clusters: ClusterTls;
  readonly healthChecks: ClusterTls;
  readonly rulesService: ClusterTls;
}

/**
 * Loads and follows the server certificate; null if HTTPS is disabled.
 * @throws GatewayError for invalid files
 */
export async function openIncomingTls(context: GatewayContext, metrics: TlsMetrics): Promise<TlsWatch | null> {
  const files = incomingTlsFiles(context.config);
  if (files === null) return null;
  const watch = await watchTls({
    use: 'clients',
    files,
    refreshTime: context.config.serverConfig['http-server.https.ssl-context.refresh-time'],
    logger: context.logger,
    metrics,
  });
  context.onClose(() => watch.stop());
  return watch;
}

/**
 * Loads and follows the certificate files for clusters and the external rules service.
 * @throws GatewayError for invalid files
 */
export async function openOutgoingTls(
  context: GatewayContext,
  table: { readonly current: RoutingTable },
  metrics: TlsMetrics,
): Promise<OutgoingTls> {
  const open = async (
    use: TlsUse,
    client: HttpClient,
    serverAt: ClusterTlsOptions['serverAt'],
    guard: AddressGuard | null,
  ) => {
    const { config, logger, onClose } = context;
    const watch = await watchTls({
      use,
      files: outgoingTlsFiles(config, client),
      refreshTime: config.serverConfig['http-server.https.ssl-context.refresh-time'],
      logger,
      metrics,
    });
    onClose(() => watch.stop());
    const { verifyHostname } = httpClientSettings(config, client);
    if (!verifyHostname) {
      logger.warn(
        { use, key: `serverConfig.${client}.http-client.https.hostname-verification` },
        'certificate host names are not verified',
      );
    }
    return new ClusterTls({
      material: () => watch.current,
      verifyHostname,
      serverAt,
      guard,
      logger,
    });
  };
  const clusters = clusterAtOrigin(table);
  const guard = new AddressGuard(clusterPolicy(context.config).addresses);
  return {
    clusters: await open('clusters', 'proxy', clusters, guard),
    healthChecks: await open('healthChecks', 'monitor', clusters, guard),
    rulesService: await open('rulesService', 'router', () => null, null),
  };
}
