import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import { trustPeers } from '../../gateway/headers/trustedProxies.ts';
import { ClientCertificates } from '../../gateway/user/clientCertificates.ts';
import { CertificateIdentities, ClusterTokens } from '../../gateway/user/clusterTokens.ts';
import { openSigningKeys, type SigningKeySettings, type SigningKeys } from '../../gateway/user/signingKeys.ts';
import { followUserMapping } from '../../gateway/user/userMapping.ts';
import type { GatewayContext } from './context.ts';

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
  const keySettings = signingKeySettings(config);
  if (settings === null || keySettings === null) return { users, isRequired: false, identities: null, keys: null };
  const keys = await openSigningKeys(keySettings, refreshTime, clock, logger);
  onClose(() => keys.stop());
  const tokenSettings = {
    principalClaim: settings.jwtPrincipalClaim,
    issuer: settings.jwtIssuer === '' ? null : settings.jwtIssuer,
    audiences: settings.jwtAudiences?.length === 0 ? null : settings.jwtAudiences,
    clusterAudiences: settings.jwtClusterAudiences,
    lifetime: settings.jwtLifetime,
    hosts: settings.tokenHosts,
  };
  const tokens = new ClusterTokens(tokenSettings, keys, clock, logger);
  const identities = new CertificateIdentities(tokens, settings.overrideTrinoUser, names);
  return { users, isRequired: settings.clientCertificateRequired, identities, keys };
}

/** Location of the keys of tokens for clusters, or null. */
export function signingKeySettings({ clientCertificateJwtAuthentication }: GatewayConfig): SigningKeySettings | null {
  if (clientCertificateJwtAuthentication === null) return null;
  const { jwtSigningKeyPair, jwtKeyId, jwtLifetime, jwtPublishAhead, jwtPublishedKeys } =
    clientCertificateJwtAuthentication;
  return {
    ...jwtSigningKeyPair,
    publishedKeys: jwtPublishedKeys,
    keyId: jwtKeyId === '' ? null : jwtKeyId,
    publishAhead: jwtPublishAhead,
    lifetime: jwtLifetime,
  };
}
