import type { KubeConfig } from '@kubernetes/client-node';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { MIN_SECRET } from '../../config/consistency.ts';
import type { Environment } from '../../config/environment.ts';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import { type ConfiguredProvider, FIRST_PROVIDER, openidProviders } from '../../config/issuerChecks.ts';
import { loadLdapFile } from '../../config/ldapFile.ts';
import { isOpenAccess } from '../../config/openAccess.ts';
import { problemLine } from '../../config/problem.ts';
import type { TrustPeer } from '../../gateway/headers/requestHeaders.ts';
import type { ClientCertificates } from '../../gateway/user/clientCertificates.ts';
import type { UserGroups } from '../../gateway/user/groups/userGroups.ts';
import { UserNamespace, userPrefixOf } from '../../gateway/user/requestIssuers.ts';
import { TokenIssuer } from '../../gateway/user/tokens.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import type { ProductNames } from '../../model/names.ts';
import { countedCalls } from '../../operator/sources/kubernetes/apiServerCalls.ts';
import type { EndedSessionRepository } from '../../store/endedSessionRepository.ts';
import { AttemptLimit, LoginOrigins, type RecordAttempt } from './attemptLimit.ts';
import { Authentication } from './authentication.ts';
import { originReader } from './clientAddress.ts';
import { apiTokens, IssuedTokens, type TokenAuthority } from './issuedTokens.ts';
import { LdapServer } from './ldapServer.ts';
import { type LoginProvider, OidcLogin, OidcProvider, providerTokens } from './oidcLogin.ts';
import { FormLogin, PresetUsers } from './presetUsers.ts';
import { groupRoleMapping, Privileges, roleMapping } from './privileges.ts';
import { type KeySource, openKeyring } from './sessionKeys.ts';
import { Revocations, SealedTokens, Sessions } from './sessions.ts';

export type AuthenticationSettings = Pick<
  GatewayConfig,
  'authentication' | 'authorization' | 'presetUsers' | 'pagePermissions'
>;

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
  /** Shared storage of ended sessions; null: in the memory of each replica. */
  readonly revocations: EndedSessionRepository | null;
  /** Users of client certificates; null: certificates name no users. */
  readonly certificates?: ClientCertificates | null;
  /** Groups of users; null or absent: they are missing. */
  readonly groups?: UserGroups | null;
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
  const { names, trustPeer, environment, clock, logger, groups = null } = dependencies;
  const origins = authentication === null ? null : new LoginOrigins(dependencies);
  const record: RecordAttempt = (name, source, result) => origins?.note(name, source, result);
  const keyring = await openKeyring(keySource(authentication), { clock, logger });
  const [keys] = await keyring();
  const presets = new PresetUsers(authentication?.form ? presetUsers : withoutPasswords(presetUsers), keys.mark);
  const revocations = new Revocations(dependencies.revocations, clock, logger);
  const lifetime = authentication?.session.lifetime ?? 0;
  const sessions = new Sessions(keyring, names.gateway, lifetime, revocations, clock);
  const ldap = ldapServers(environment);
  const loginLdap = await ldap(authentication?.form?.ldapConfigPath ?? null, 'authentication.form.ldapConfigPath');
  const groupLdap = await ldap(authorization?.ldapConfigPath ?? null, 'authorization.ldapConfigPath');
  const rolesOfGroups = groupRoleMapping(authorization?.groupRoles ?? null);
  const groupRoles = rolesOfGroups === null || groups === null ? null : { rolesOf: rolesOfGroups, groups };
  const privileges = new Privileges(roleMapping(authorization), presets, groupLdap, groupRoles, clock);
  const limit = authentication === null ? null : new AttemptLimit(authentication.loginLimit, clock, record);
  const form =
    limit === null || authentication?.form == null
      ? null
      : new FormLogin(loginLdap, authentication.form.order, presets, limit, clock);
  const { providers, authorities } = issuers(
    authentication,
    (provider) => new OidcLogin(provider, keyring, names.gateway, revocations, clock),
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
    providers,
    issuedTokens: new IssuedTokens(authorities, dependencies.metrics),
    kubernetes,
    certificates: authentication?.clientCertificates === true ? (dependencies.certificates ?? null) : null,
    sealedTokens: new SealedTokens(keyring),
    pagePermissions,
    webappReadRole: authorization?.webappReadRole ?? null,
    publicReads: authentication?.publicReads ?? true,
    originOf: originReader(names, trustPeer),
  });
  if (result.isOpen) {
    const why = authentication === null ? 'authentication is not configured' : 'authentication is none';
    logger.warn(`${why}: every call of the API passes with all roles`);
  }
  for (const [key, { issuer }] of openidProviders(authentication)) {
    if (issuer.startsWith('http:')) logger.warn({ key, issuer }, 'OpenID provider is called without TLS');
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
  if (authentication === null) return null;
  const { session, oauth } = authentication;
  const previous = session.previousSecrets;
  if (session.secret !== null) return { secret: session.secret, previous, minLength: MIN_SECRET };
  return oauth === null ? null : { secret: oauth.clientSecret, previous, minLength: 1 };
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
    const server = await LdapServer.create(loaded.settings, async () => {
      const again = await loadLdapFile(path, environment);
      return 'problems' in again ? null : again.settings;
    });
    servers.set(path, server);
    return server;
  };
}

/** The providers at which users log in, and every issuer of bearer tokens. */
function issuers(
  authentication: AuthenticationSettings['authentication'],
  loginAt: (provider: LoginProvider) => OidcLogin,
  clock: Clock,
): { readonly providers: ReadonlyMap<string, OidcLogin>; readonly authorities: readonly TokenAuthority[] } {
  const providers = new Map<string, OidcLogin>();
  const authorities: TokenAuthority[] = [];
  if (authentication === null) return { providers, authorities };
  const { oauth, providers: further, tokenIssuers } = authentication;
  const prefixes = Object.entries({ ...further, ...tokenIssuers }).map(([name, { userPrefix }]) =>
    userPrefixOf(name, userPrefix),
  );
  const usersOf = (prefix: string) => new UserNamespace(prefix, prefixes);
  const add = (provider: LoginProvider) => {
    providers.set(provider.name, loginAt(provider));
    authorities.push(providerTokens(provider, clock));
  };
  if (oauth !== null) {
    const label = oauth.label ?? URL.parse(oauth.issuer)?.host ?? FIRST_PROVIDER;
    add({ name: FIRST_PROVIDER, label, rolesOf: null, ...configuredProvider(oauth, usersOf('')) });
  }
  for (const [name, settings] of Object.entries(further)) {
    const users = usersOf(userPrefixOf(name, settings.userPrefix));
    const rolesOf = roleMapping(settings.roles ?? noRoles);
    add({ name, label: settings.label ?? name, rolesOf, ...configuredProvider(settings, users) });
  }
  for (const [name, settings] of Object.entries(tokenIssuers)) {
    const { audiences, requiredClaims, userIdField, privilegesField, userPrefix, roles } = settings;
    const users = usersOf(userPrefixOf(name, userPrefix));
    const issuer = new TokenIssuer({ ...settings, mustExpire: true }, clock);
    const rules = { audiences, requiredClaims, userIdField, privilegesField, users };
    authorities.push(apiTokens(name, issuer, rules, roleMapping(roles ?? noRoles)));
  }
  return { providers, authorities };
}

const noRoles = { admin: null, user: null, api: null };

function configuredProvider(
  settings: ConfiguredProvider,
  users: UserNamespace,
): Omit<LoginProvider, 'name' | 'label' | 'rolesOf'> {
  const { issuer, clientId, clientSecret, authorizationEndpoint, tokenEndpoint, jwkEndpoint } = settings;
  const { redirectUrl, redirectWebUrl, logoutRedirectUrl, scopes, userIdField, privilegesField } = settings;
  // The configuration has been checked: all three or none.
  const endpoints =
    authorizationEndpoint === null || tokenEndpoint === null || jwkEndpoint === null
      ? null
      : { authorization: authorizationEndpoint, token: tokenEndpoint, jwks: jwkEndpoint };
  const { audiences, requiredClaims } = settings;
  return {
    provider: new OidcProvider({ issuer, clientId, clientSecret, endpoints }),
    ...{ redirectUrl, redirectWebUrl: redirectWebUrl ?? '/', logoutRedirectUrl, scopes },
    rules: { userIdField, privilegesField, audiences: audiences ?? [clientId], requiredClaims, users },
  };
}
