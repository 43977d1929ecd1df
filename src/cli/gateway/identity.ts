import { ldapServers } from '../../api/auth/openAuthentication.ts';
import { httpClientSettings } from '../../config/httpClient.ts';
import type { HttpClient } from '../../config/schema/serverConfig.ts';
import { trustPeers } from '../../gateway/headers/requestHeaders.ts';
import { AddressGuard, ClusterTls, clusterAtOrigin, type ServerAt } from '../../gateway/tls/clusterTls.ts';
import { type TlsMetrics, type TlsUse, type TlsWatch, watchTls } from '../../gateway/tls/tlsFiles.ts';
import { ClientCertificates } from '../../gateway/user/clientCertificates.ts';
import { CertificateIdentities, openSigningKeys, type SigningKeys } from '../../gateway/user/clusterTokens.ts';
import {
  certificateGroups,
  type GroupSource,
  headerGroups,
  ldapGroups,
  openGroupFile,
  tokenClaimGroups,
  tokenReviewGroups,
  UserGroups,
  userInfoGroups,
} from '../../gateway/user/groups/userGroups.ts';
import { namesWithoutPrefix } from '../../gateway/user/tokens.ts';
import { followUserMapping, MappedUsers } from '../../gateway/user/userMapping.ts';
import { type GroupSourceName, groupSourceNames } from '../../model/membership.ts';
import type { RoutingTable } from '../../routing/routingTable.ts';
import { clusterAddresses, incomingTlsFiles, outgoingTlsFiles } from '../settings.ts';
import type { GatewayContext } from './context.ts';

/** TLS of the gateway's clients: each with the certificate files of its prefix in `serverConfig`. */
interface OutgoingTls {
  readonly clusters: ClusterTls;
  readonly healthChecks: ClusterTls;
  readonly rulesService: ClusterTls;
}

/**
 * Loads and follows the certificate; null if HTTPS is disabled.
 * @throws GatewayError for invalid files
 */
export async function openIncomingTls(context: GatewayContext, metrics: TlsMetrics): Promise<TlsWatch | null> {
  const files = incomingTlsFiles(context.config);
  if (files === null) return null;
  const refreshTime = context.config.serverConfig['http-server.https.ssl-context.refresh-time'];
  const watch = await watchTls('clients', files, refreshTime, context.logger, metrics);
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
  const open = async (use: TlsUse, client: HttpClient, serverAt: ServerAt, guard: AddressGuard | null) => {
    const { config, logger, onClose } = context;
    const refreshTime = config.serverConfig['http-server.https.ssl-context.refresh-time'];
    const watch = await watchTls(use, outgoingTlsFiles(config, client), refreshTime, logger, metrics);
    onClose(() => watch.stop());
    const { verifyHostname } = httpClientSettings(config, client);
    if (!verifyHostname) {
      logger.warn(
        { use, key: `serverConfig.${client}.http-client.https.hostname-verification` },
        'certificate host names are not verified',
      );
    }
    return new ClusterTls(watch, verifyHostname, serverAt, guard, logger);
  };
  const clusters = clusterAtOrigin(table);
  const guard = new AddressGuard(clusterAddresses(context.config));
  return {
    clusters: await open('clusters', 'proxy', clusters, guard),
    healthChecks: await open('healthChecks', 'monitor', clusters, guard),
    rulesService: await open('rulesService', 'router', () => null, null),
  };
}

/** Users of client certificates, and their identity for clusters. */
export interface CertificateParts {
  readonly users: ClientCertificates;
  readonly isRequired: boolean;
  /** Null: clients' headers are forwarded. */
  readonly identities: CertificateIdentities | null;
  /** Keys of tokens for clusters, or null. */
  readonly keys: SigningKeys | null;
}

/**
 * Opens the identification by client certificates; null if not configured.
 * @throws GatewayError naming the key with an invalid pattern, file, expression or key file
 */
export async function openClientCertificates(context: GatewayContext): Promise<CertificateParts | null> {
  const { config, names, clock, logger, onClose } = context;
  const refreshTime = config.serverConfig['http-server.https.ssl-context.refresh-time'];
  const mapping = await followUserMapping(config.requestAnalyzerConfig, names, refreshTime, logger);
  if (mapping === null) return null;
  onClose(() => mapping.stop());
  const { clientCertificateHeader: name, trustedProxies } = config.server;
  // Trusting all forwarded headers (http-server.process-forwarded) must not allow arbitrary identities.
  const isProxy = trustPeers(false, trustedProxies);
  const header = name === null ? null : { name: names.ownHeader(name).toLowerCase(), isProxy };
  const users = new ClientCertificates(mapping, header, clock);
  const settings = config.clientCertificateJwtAuthentication;
  if (settings === null) return { users, isRequired: false, identities: null, keys: null };
  const keys = await openSigningKeys(settings, refreshTime, clock, logger);
  onClose(() => keys.stop());
  const identities = new CertificateIdentities(settings, keys, names, clock, logger);
  return { users, isRequired: settings.clientCertificateRequired, identities, keys };
}

/**
 * Creates the mapping of user names; null if not configured.
 * @throws GatewayError naming the invalid key
 */
export async function openMappedUsers({ config, logger, onClose }: GatewayContext): Promise<MappedUsers | null> {
  if (config.userMapping === null) return null;
  const mapping = await MappedUsers.open(config.userMapping, logger);
  onClose(() => mapping.stop());
  return mapping;
}

/**
 * Creates the lookup of user groups from the sources of `userGroups` in order; null if not configured.
 * @param mapping maps names of API callers for the lookup, or null
 * @throws GatewayError naming the invalid key
 */
export async function openUserGroups(context: GatewayContext, mapping: MappedUsers | null): Promise<UserGroups | null> {
  const settings = context.config.userGroups;
  if (settings === null) return null;
  const sources: GroupSource[] = [];
  for (const name of new Set(settings.sources ?? groupSourceNames)) {
    const source = settings[name] === null ? null : await openGroupSource(name, settings, context);
    if (source !== null) sources.push(source);
  }
  return new UserGroups(sources, settings, mapping);
}

type GroupSettings = NonNullable<GatewayContext['config']['userGroups']>;

/** Opens a configured source. */
async function openGroupSource(
  name: GroupSourceName,
  settings: GroupSettings,
  { config, names, clock, environment, logger, onClose }: GatewayContext,
): Promise<GroupSource | null> {
  const { token, userInfo, certificate, header, ldap, file, keepLastKnown } = settings;
  if (name === 'token' && token !== null) return tokenClaimGroups(token);
  if (name === 'userInfo' && userInfo !== null) {
    return userInfoGroups(userInfo, namesWithoutPrefix(config.requestAnalyzerConfig.tokenIssuers).groups);
  }
  if (name === 'tokenReview') return tokenReviewGroups;
  if (name === 'certificate' && certificate !== null) return certificateGroups(certificate.field);
  // Trusting all forwarded headers (http-server.process-forwarded) must not allow arbitrary groups.
  if (name === 'header' && header !== null) {
    return headerGroups(header, trustPeers(false, config.server.trustedProxies), names);
  }
  if (name === 'ldap' && ldap !== null) {
    const { configPath, ...search } = ldap;
    const server = await ldapServers(environment)(configPath, 'userGroups.ldap.configPath');
    if (server === null) return null;
    return ldapGroups((user) => server.groupsOf(user, search), settings, clock, logger);
  }
  if (file === null) return null;
  const source = await openGroupFile(file, keepLastKnown, clock, logger);
  onClose(() => source.stop());
  return source;
}
