import type { KubeConfig } from '@kubernetes/client-node';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import type { Environment } from '../../config/environment.ts';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import { loadLdapFile } from '../../config/ldapFile.ts';
import { isOpenAccess } from '../../config/openAccess.ts';
import { problemLine } from '../../config/problem.ts';
import type { TrustPeer } from '../../gateway/headers/trustedProxies.ts';
import type { ClientCertificates } from '../../gateway/user/clientCertificates.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import type { ProductNames } from '../../model/names.ts';
import { countedCalls } from '../../operator/sources/kubernetes/apiServerCalls.ts';
import type { EndedSessionRepository } from '../../store/store.ts';
import { AttemptLimit, type RecordAttempt } from './attemptLimit.ts';
import { Authentication } from './authentication.ts';
import { originReader } from './clientAddress.ts';
import { FormLogin } from './formLogin.ts';
import { LdapServer } from './ldapServer.ts';
import { LoginOrigins } from './loginOrigins.ts';
import { OidcLogin } from './oidcLogin.ts';
import { OidcProvider } from './oidcProvider.ts';
import { PresetUsers } from './presetUsers.ts';
import { Privileges } from './privileges.ts';
import type { ClaimRules } from './providerClaims.ts';
import { ProviderTokens } from './providerTokens.ts';
import { Revocations } from './revocations.ts';
import { roleMapping } from './roleMapping.ts';
import { SealedTokens } from './sealedTokens.ts';
import { type KeySource, sessionKeys } from './sessionKeys.ts';
import { Sessions } from './sessions.ts';

/** The parts of the configuration that say who may call. */
export type AuthenticationSettings = Pick<
  GatewayConfig,
  'authentication' | 'authorization' | 'presetUsers' | 'pagePermissions'
>;

/** What recognising callers works with. */
export interface AuthenticationDependencies {
  readonly names: ProductNames;
  readonly trustPeer: TrustPeer;
  /** Variables for `${ENV:NAME}` in the file of the LDAP server. */
  readonly environment: Environment;
  /** The Kubernetes API server; asked for only where `authentication.kubernetes` is configured. */
  readonly kubernetes: () => Promise<{
    readonly kubeConfig: KubeConfig;
    /** Namespace of the resources that callers are asked about; null: all of them. */
    readonly namespace: string | null;
  }>;
  /** Where all replicas keep ended sessions; null: each in its memory. */
  readonly revocations: EndedSessionRepository | null;
  /** Users of client certificates; null: certificates name no users. */
  readonly certificates?: ClientCertificates | null;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Registry;
}

/**
 * Makes what recognises callers, from the configuration. Nothing is connected to: provider, LDAP server and
 * API server are asked when a call needs them.
 * @throws GatewayError EG_IMPOSSIBLE naming the key of the configuration that cannot be used
 */
export async function openAuthentication(
  settings: AuthenticationSettings,
  dependencies: AuthenticationDependencies,
): Promise<Authentication> {
  const { authentication, authorization, presetUsers, pagePermissions } = settings;
  const { names, trustPeer, environment, clock, logger } = dependencies;
  const origins = authentication === null ? null : new LoginOrigins(dependencies);
  const record: RecordAttempt = (name, source, result) => origins?.note(name, source, result);
  const keys = await sessionKeys(keySource(authentication));
  const presets = new PresetUsers(authentication?.form ? presetUsers : withoutPasswords(presetUsers), keys.mark);
  const revocations = new Revocations({ store: dependencies.revocations, clock, logger });
  const sessions = new Sessions({
    keys,
    issuer: names.gateway,
    lifetime: authentication?.session.lifetime ?? 0,
    revocations,
    clock,
  });
  const ldap = ldapServers(environment);
  const loginLdap = await ldap(authentication?.form?.ldapConfigPath ?? null, 'authentication.form.ldapConfigPath');
  const groupLdap = await ldap(authorization?.ldapConfigPath ?? null, 'authorization.ldapConfigPath');
  const privileges = new Privileges({
    rolesOf: roleMapping(authorization),
    presets,
    directory: groupLdap,
    clock,
  });
  const form =
    authentication?.form == null
      ? null
      : new FormLogin({
          ldap: loginLdap,
          presets,
          limit: new AttemptLimit(authentication.loginLimit, clock, record),
          clock,
        });
  const { oidc, providerTokens } = provider(
    authentication?.oauth ?? null,
    keys.seal,
    names.gateway,
    revocations,
    clock,
  );
  const kubernetes = await kubernetesAccess(authentication, dependencies, record);
  const result = new Authentication({
    isOpen: isOpenAccess({ authentication }),
    names,
    sessions,
    presets,
    privileges,
    form,
    oidc,
    providerTokens,
    kubernetes,
    certificates: authentication?.clientCertificates === true ? (dependencies.certificates ?? null) : null,
    sealedTokens: new SealedTokens(keys.seal),
    pagePermissions,
    redirectWebUrl: authentication?.oauth?.redirectWebUrl ?? '/',
    webappReadRole: authorization?.webappReadRole ?? null,
    publicReads: authentication?.publicReads ?? true,
    originOf: originReader(names, trustPeer),
  });
  if (result.isOpen) {
    const why = authentication === null ? 'authentication is not configured' : 'authentication is none';
    logger.warn(`${why}: every call of the API passes with all roles`);
  }
  if (authentication?.oauth?.issuer.startsWith('http:') === true) {
    logger.warn({ issuer: authentication.oauth.issuer }, 'the OpenID provider is asked in clear text');
  }
  return result;
}

async function kubernetesAccess(
  authentication: AuthenticationSettings['authentication'],
  { kubernetes, clock, metrics }: AuthenticationDependencies,
  record: RecordAttempt,
) {
  if (authentication?.kubernetes == null) return null;
  // The client library takes half a second to load: only where it is needed.
  const { KubernetesAccess } = await import('./kubernetesAccess.ts');
  const { loginLimit: limits, kubernetes: settings } = authentication;
  const calls = countedCalls(metrics);
  return new KubernetesAccess({ ...(await kubernetes()), ...settings, limits, clock, record, calls });
}

/**
 * Keys that all replicas share: the configured pair, the configured secret, or what the provider's client secret gives.
 * Where Kubernetes alone recognises callers and no secret is configured, a session ends with the process that began it.
 */
export function keySource(authentication: AuthenticationSettings['authentication']): KeySource {
  if (authentication?.form) {
    const { privateKeyRsa, publicKeyRsa } = authentication.form.selfSignKeyPair;
    return { privateKeyPath: privateKeyRsa, publicKeyPath: publicKeyRsa };
  }
  const secret = authentication?.session.secret ?? authentication?.oauth?.clientSecret ?? null;
  return secret === null ? null : { secret };
}

function withoutPasswords(users: AuthenticationSettings['presetUsers']): AuthenticationSettings['presetUsers'] {
  return Object.fromEntries(Object.entries(users).map(([name, user]) => [name, { ...user, password: null }]));
}

/** Makes LDAP servers from their files; the same file gives the same server. */
export function ldapServers(environment: Environment) {
  const servers = new Map<string, LdapServer>();
  return async (path: string | null, field: string): Promise<LdapServer | null> => {
    if (path === null) return null;
    const present = servers.get(path);
    if (present !== undefined) return present;
    const loaded = await loadLdapFile(path, environment);
    if ('problems' in loaded) {
      const lines = loaded.problems.map((problem) => problemLine(path, problem)).join('\n');
      throw new GatewayError('EG_IMPOSSIBLE', `${field}: ${lines}`, { field });
    }
    const server = await LdapServer.create(loaded.settings);
    servers.set(path, server);
    return server;
  };
}

type Oauth = NonNullable<AuthenticationSettings['authentication']>['oauth'];

function provider(
  oauth: Oauth,
  sealKey: Uint8Array,
  issuer: string,
  revocations: Revocations,
  clock: Clock,
): { readonly oidc: OidcLogin | null; readonly providerTokens: ProviderTokens | null } {
  if (oauth === null) return { oidc: null, providerTokens: null };
  const { authorizationEndpoint, tokenEndpoint, jwkEndpoint } = oauth;
  const endpoint = new OidcProvider({
    issuer: oauth.issuer,
    clientId: oauth.clientId,
    clientSecret: oauth.clientSecret,
    // The configuration has been checked: all three or none.
    endpoints:
      authorizationEndpoint === null || tokenEndpoint === null || jwkEndpoint === null
        ? null
        : { authorization: authorizationEndpoint, token: tokenEndpoint, jwks: jwkEndpoint },
  });
  const rules: ClaimRules = {
    clientId: oauth.clientId,
    userIdField: oauth.userIdField,
    privilegesField: oauth.privilegesField,
    audiences: oauth.audiences,
  };
  const { redirectUrl, scopes } = oauth;
  return {
    oidc: new OidcLogin({ provider: endpoint, redirectUrl, scopes, rules, sealKey, issuer, revocations, clock }),
    providerTokens: new ProviderTokens(endpoint, rules, clock),
  };
}
