import type { KubeConfig } from '@kubernetes/client-node';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { FIRST_PROVIDER, MIN_SECRET, openidProviders } from '../../config/consistency.ts';
import type { Environment } from '../../config/environment.ts';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import { loadLdapFile } from '../../config/ldapFile.ts';
import { isOpenAccess } from '../../config/openAccess.ts';
import { problemLine } from '../../config/source.ts';
import type { TrustPeer } from '../../gateway/headers/requestHeaders.ts';
import type { ClientCertificates } from '../../gateway/user/clientCertificates.ts';
import type { UserGroups } from '../../gateway/user/groups/userGroups.ts';
import { TokenIssuer, UserNamespace, userPrefixOf } from '../../gateway/user/tokens.ts';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import type { ProductNames } from '../../model/names.ts';
import { countedCalls } from '../../operator/sources/kubernetes/apiServerCalls.ts';
import type { EndedSessionRepository } from '../../store/endedSessionRepository.ts';
import type { ComponentState } from '../apiContext.ts';
import { AttemptLimit, LoginOrigins, type LoginSource, originReader, type RecordAttempt } from './attemptLimit.ts';
import { cookieNames, REFERENCE_TOKEN_COOKIE, readCookie, readCredentials } from './cookies.ts';
import { type Caller, callerWithRoles, type Recognition } from './endpointAccess.ts';
import { isBrowser, isSafeMethod, requireTokenHeader } from './guard.ts';
import { LdapServer } from './ldapServer.ts';
import type { LoginMethod, LoginType } from './loginRoutes.ts';
import { apiTokens, IssuedTokens, type LoginStates, OidcProvider } from './oidcLogin.ts';
import {
  type KeySource,
  openKeyring,
  Revocations,
  SealedTexts,
  type Session,
  type SessionOrigin,
  Sessions,
} from './sessions.ts';
import { FormLogin, groupRoleMapping, PresetUsers, Privileges, roleMapping } from './users.ts';

export type AuthenticationSettings = Pick<
  GatewayConfig,
  'authentication' | 'authorization' | 'presetUsers' | 'pagePermissions'
>;

export interface AuthenticationDependencies {
  readonly names: ProductNames;
  readonly trustPeer: TrustPeer;
  /** The Kubernetes API server; asked for only where `authentication.kubernetes` is configured. */
  readonly kubernetes: () => Promise<{
    readonly kubeConfig: KubeConfig;
    /** Namespace of the resources that callers are asked about; null: all of them. */
    readonly namespace: string | null;
  }>;
  /** Shared storage of ended sessions; null: in the memory of each replica. */
  readonly revocations: EndedSessionRepository | null;
  /** Users of client certificates and groups of users; null: none. */
  readonly identity?: { readonly certificates: ClientCertificates | null; readonly groups: UserGroups | null };
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Registry;
}

/**
 * Makes what recognises callers, from the configuration. Nothing is connected to: provider, LDAP server and
 * API server are asked when a call needs them.
 * @param environment variables for `${ENV:NAME}` in the file of the LDAP server
 * @throws GatewayError EG_IMPOSSIBLE naming the key of the configuration that cannot be used
 */
export async function openAuthentication(
  settings: AuthenticationSettings,
  environment: Environment,
  dependencies: AuthenticationDependencies,
): Promise<Authentication> {
  const { logger } = dependencies;
  const { authentication } = settings;
  const result = new Authentication(await openParts(settings, environment, dependencies));
  if (result.isOpen) {
    const why = authentication === null ? 'authentication is not configured' : 'authentication is none';
    logger.warn(`${why}: every call of the API passes with all roles`);
  }
  for (const [key, { issuer }] of openidProviders(authentication)) {
    if (issuer.startsWith('http:')) logger.warn({ key, issuer }, 'OpenID provider is called without TLS');
  }
  return result;
}

/** The configured ways of recognising callers; null if one is not configured. */
export type AuthenticationParts = Awaited<ReturnType<typeof openParts>>;

async function openParts(settings: AuthenticationSettings, env: Environment, given: AuthenticationDependencies) {
  const { authentication, authorization, presetUsers, pagePermissions } = settings;
  const { names, trustPeer, clock, logger, metrics } = given;
  const { groups = null, certificates = null } = given.identity ?? {};
  const origins = authentication === null ? null : new LoginOrigins(given);
  const record: RecordAttempt = (name, source, result) => origins?.note(name, source, result);
  const keyring = await openKeyring(keySource(authentication), { clock, logger });
  const [keys] = await keyring();
  const presets = new PresetUsers(authentication?.form ? presetUsers : withoutPasswords(presetUsers), keys.mark);
  const revocations = new Revocations(given.revocations, clock, logger);
  const seals = new SealedTexts(keyring);
  const ldap = ldapServers(env);
  const loginLdap = await ldap(authentication?.form?.ldapConfigPath ?? null, 'authentication.form.ldapConfigPath');
  const groupLdap = await ldap(authorization?.ldapConfigPath ?? null, 'authorization.ldapConfigPath');
  const rolesOfGroups = groupRoleMapping(authorization?.groupRoles ?? null);
  const groupRoles = rolesOfGroups === null || groups === null ? null : { rolesOf: rolesOfGroups, groups };
  const limit = authentication === null ? null : new AttemptLimit(authentication.loginLimit, clock, record);
  const form =
    limit === null || authentication?.form == null
      ? null
      : new FormLogin(loginLdap, authentication.form.order, presets, limit, clock);
  const { providers, authorities } = issuers(authentication, { seals, revocations, clock });
  return {
    ...{ names, presets, form, pagePermissions, sealedTexts: seals },
    /** True if every call passes with all roles; without it, and without any way, none does. */
    isOpen: isOpenAccess({ authentication }),
    sessions: new Sessions(keyring, names.gateway, authentication?.session.lifetime ?? 0, revocations, clock),
    privileges: new Privileges(roleMapping(authorization), presets, groupLdap, groupRoles, clock),
    /** OpenID providers at which users log in, by name, in the order of the login page. */
    providers,
    issuedTokens: new IssuedTokens(authorities, metrics),
    kubernetes: await kubernetesAccess(authentication, given, record),
    /** Users of client certificates, for programs; null if they are not recognised by them. */
    certificates: authentication?.clientCertificates === true ? certificates : null,
    /** Null: the default of the product. */
    webappReadRole: authorization?.webappReadRole ?? null,
    publicReads: authentication?.publicReads ?? true,
    originOf: originReader(names, trustPeer),
  };
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

const noRoles = { admin: null, user: null, api: null };

/** The providers at which users log in, by name, and every issuer of bearer tokens. */
function issuers(authentication: AuthenticationSettings['authentication'], logins: LoginStates) {
  const { oauth = null, providers: further = {}, tokenIssuers = {} } = authentication ?? {};
  const prefixes = Object.entries({ ...further, ...tokenIssuers }).map(([name, { userPrefix }]) =>
    userPrefixOf(name, userPrefix),
  );
  const usersOf = (name: string, prefix: string | null) => new UserNamespace(userPrefixOf(name, prefix), prefixes);
  const providers = [
    ...(oauth === null ? [] : [new OidcProvider(FIRST_PROVIDER, oauth, null, new UserNamespace('', prefixes), logins)]),
    ...Object.entries(further).map(([name, settings]) => {
      const users = usersOf(name, settings.userPrefix);
      return new OidcProvider(name, settings, roleMapping(settings.roles ?? noRoles), users, logins);
    }),
  ];
  const ofPrograms = Object.entries(tokenIssuers).map(([name, settings]) => {
    const issuer = new TokenIssuer({ ...settings, mustExpire: true }, logins.clock);
    const rules = { ...settings, users: usersOf(name, settings.userPrefix) };
    return apiTokens(name, issuer, rules, roleMapping(settings.roles ?? noRoles));
  });
  const byName = new Map(providers.map((provider) => [provider.name, provider]));
  return { providers: byName, authorities: [...providers, ...ofPrograms] };
}

const GONE = 'The user of the session is not known any more.';

/** Recognises callers (docs/authentication.md#ways-of-recognising-callers). */
export class Authentication {
  readonly parts: AuthenticationParts;
  readonly loginType: LoginType;
  /** True if every call passes, with all roles. */
  readonly isOpen: boolean;

  constructor(parts: AuthenticationParts) {
    this.parts = parts;
    this.isOpen = parts.isOpen;
    const { form, providers, kubernetes } = parts;
    this.loginType =
      form !== null ? 'form' : providers.size > 0 ? 'oauth' : kubernetes !== null ? 'kubernetes' : 'none';
  }

  /** Every way of logging in that people have, in the order of the login page. */
  get loginMethods(): readonly LoginMethod[] {
    const { form, providers, kubernetes } = this.parts;
    if (this.isOpen) return [];
    return [
      ...(form === null ? [] : [{ kind: 'form' } as const]),
      ...Array.from(providers.values(), ({ name, label }) => ({ kind: 'provider', name, label }) as const),
      ...(kubernetes === null ? [] : [{ kind: 'kubernetes' } as const]),
    ];
  }

  /** The provider of a name; without one the first, or the only one; null where none is meant. */
  provider(name: string | null): OidcProvider | null {
    const { providers } = this.parts;
    if (name !== null) return providers.get(name) ?? null;
    const [only, ...others] = providers.values();
    return providers.get(FIRST_PROVIDER) ?? (others.length === 0 ? (only ?? null) : null);
  }

  /** For `/readyz?verbose`. */
  state(): ComponentState {
    const { form, providers, issuedTokens, kubernetes, certificates } = this.parts;
    if (this.isOpen) {
      const message =
        'open: every call passes with all roles; configure "authentication" (docs/authentication.md) to change that';
      return { name: 'authentication', ok: false, message };
    }
    const ways = [
      form && 'form',
      providers.has(FIRST_PROVIDER) && 'oauth',
      ...[...providers.keys()].filter((name) => name !== FIRST_PROVIDER),
      !issuedTokens.isEmpty && providers.size === 0 && 'tokens of issuers',
      kubernetes && 'kubernetes',
      certificates && 'client certificates',
    ].filter((way) => typeof way === 'string');
    if (ways.length === 0) {
      const message = 'closed: no way of recognising callers is configured, so that no call passes';
      return { name: 'authentication', ok: false, message };
    }
    return { name: 'authentication', ok: true, message: ways.join(', ') };
  }

  /**
   * Recognises the caller of a request, if authentication is configured.
   * @throws GatewayError EG_UNAUTHENTICATED (the challenge is on the reply), EG_FORBIDDEN (a write by cookie without its
   * header), EG_TOO_MANY_ATTEMPTS, EG_IDENTITY_UNAVAILABLE
   */
  async callerOf(request: FastifyRequest, reply: FastifyReply): Promise<Caller> {
    const origin = this.parts.originOf(request.raw);
    const { headers } = request;
    const cookies = cookieNames(this.parts.names, origin.view.scheme === 'https');
    const ownSession = readCookie(headers.cookie, cookies.session);
    const referenceToken = this.parts.names.isReference
      ? readCookie(headers.cookie, REFERENCE_TOKEN_COOKIE)
      : undefined;
    const credentials = readCredentials(headers.authorization, ownSession ?? referenceToken);
    const reject = (why: string, invalidToken = false): GatewayError => {
      reply.header('WWW-Authenticate', this.#challenges(isBrowser(headers), invalidToken));
      return new GatewayError('EG_UNAUTHENTICATED', why);
    };
    switch (credentials.kind) {
      case 'none': {
        const caller = await this.#ofCertificate(request);
        if (typeof caller === 'string') throw reject(caller);
        if (caller !== null) return caller;
        throw reject(`The request has no credentials. ${this.#accepted()}`);
      }
      case 'unreadable':
        throw reject(credentials.why);
      case 'basic': {
        if (this.parts.form === null) throw reject(`Basic credentials are not accepted here. ${this.#accepted()}`);
        const userOrigin = await this.parts.form.checkAgain(credentials.name, credentials.password, origin.source);
        if (userOrigin === null) throw reject('Name or password are wrong.');
        const caller = await this.#callerFrom(credentials.name, userOrigin, 'basic', origin.source);
        if (typeof caller === 'string') throw reject('Name or password are wrong.');
        return caller;
      }
      case 'bearer': {
        const caller = await this.#bearer(credentials.token, origin.source);
        if (typeof caller === 'string') throw reject(caller, true);
        return caller;
      }
      case 'cookie': {
        const session = await this.sessionOf(credentials.token, origin.source);
        if (typeof session === 'string') throw reject(session, true);
        // Programs send the reference's cookie; no browser has it from us, and what comes from one needs the header.
        const isProgram = ownSession === undefined && !isBrowser(headers) && headers.origin === undefined;
        if (!isSafeMethod(request.method) && !isProgram) {
          const header = csrfHeader(this.parts.names);
          const line = headers[header.toLowerCase()];
          requireTokenHeader(
            typeof line === 'string' ? line : undefined,
            session.session.csrfToken,
            header,
            cookies.csrf,
          );
        }
        return session.caller;
      }
    }
  }

  /** The session of a token with its caller, or why it is missing. */
  async sessionOf(
    token: string,
    source: LoginSource,
  ): Promise<{ readonly session: Session; readonly caller: Caller } | string> {
    const read = await this.parts.sessions.read(token);
    if (read === null) return 'The session is not one of this gateway.';
    if ('ended' in read) return read.ended;
    const { session } = read;
    const caller = await this.#callerFrom(session.user, session.origin, 'session', source);
    return typeof caller === 'string' ? caller : { session, caller };
  }

  /** The caller of a bearer token, or why it is not accepted: our session, the provider's JWT, the cluster's token. */
  async #bearer(token: string, source: LoginSource): Promise<Caller | string> {
    const { sessions, issuedTokens, kubernetes, privileges } = this.parts;
    const read = await sessions.read(token);
    if (read !== null) {
      const session = await this.sessionOf(token, source);
      return typeof session === 'string' ? session : session.caller;
    }
    const issued = await issuedTokens.userOf(token);
    if (typeof issued === 'string') return issued;
    if (issued !== null) {
      const { user, authority } = issued;
      const text = issued.privileges ?? (await privileges.of(user));
      const ownRoles = await privileges.rolesOf(user, text, { mapping: authority.rolesOf });
      return callerWithRoles(user, 'bearer', ownRoles, authority.name);
    }
    if (kubernetes === null) return issuedTokens.rejectionOf(token);
    const reviewed = await kubernetes.review(token, source);
    return typeof reviewed === 'string' ? reviewed : kubernetes.caller(reviewed.identity);
  }

  /**
   * The caller of a client certificate, why it is not accepted, or null without one. Browsers send theirs with whatever a
   * page makes them ask, so that people log in instead.
   */
  async #ofCertificate({ raw, headers }: FastifyRequest): Promise<Caller | string | null> {
    const { certificates, privileges } = this.parts;
    if (certificates === null || isBrowser(headers) || headers.origin !== undefined) return null;
    const certificate = certificates.of(raw);
    if (certificate.kind === 'none') return null;
    if (certificate.kind === 'rejected') return certificate.why;
    const { user, evidence } = certificate;
    const ownRoles = await privileges.rolesOf(user, await privileges.of(user), { evidence });
    return callerWithRoles(user, 'certificate', ownRoles, 'certificate');
  }

  /** The caller who logged in in some way, or why it is missing any more. */
  async #callerFrom(
    user: string,
    origin: SessionOrigin,
    by: Recognition,
    source: LoginSource,
  ): Promise<Caller | string> {
    const { presets, privileges, form, providers } = this.parts;
    switch (origin.kind) {
      case 'preset':
        if (form?.hasPresets !== true || presets.markOf(user) !== origin.mark) return GONE;
        break;
      case 'ldap':
        if (form?.hasDirectory !== true) return GONE;
        break;
      case 'provider': {
        const provider = providers.get(origin.provider);
        if (provider === undefined) return GONE;
        const text = origin.privileges ?? (await privileges.of(user));
        const ownRoles = await privileges.rolesOf(user, text, { mapping: provider.rolesOf });
        return callerWithRoles(user, by, ownRoles, origin.provider);
      }
      case 'kubernetes':
        return this.#kubernetesCaller(user, origin.token, source);
      default:
        return GONE;
    }
    const ownRoles = await privileges.rolesOf(user, await privileges.of(user));
    return callerWithRoles(user, by, ownRoles, methodOf(origin));
  }

  /** The session counts as long as the token does that began it: the API server is asked again. */
  async #kubernetesCaller(user: string, sealed: unknown, source: LoginSource): Promise<Caller | string> {
    const { kubernetes, sealedTexts } = this.parts;
    const token =
      kubernetes === null || typeof sealed !== 'string' ? null : await sealedTexts.open(sealed, `user ${user}`);
    if (kubernetes === null || token === null) return GONE;
    const reviewed = await kubernetes.review(token, source);
    if (typeof reviewed === 'string') return `The token of the session is no longer accepted: ${reviewed}`;
    return reviewed.identity.name === user ? kubernetes.caller(reviewed.identity) : GONE;
  }

  /** Returns the credentials that calls are accepted with, for the message of a 401. */
  #accepted(): string {
    const { form, providers, issuedTokens, kubernetes, certificates, names } = this.parts;
    const headers = [
      form && 'Basic with name and password',
      !issuedTokens.isEmpty && 'Bearer with a token of a configured issuer',
      kubernetes && 'Bearer with a token of the Kubernetes cluster (kubectl create token NAME)',
    ].filter((credentials) => typeof credentials === 'string');
    const ways = [
      headers.length > 0 && `send the header Authorization: ${headers.join(', or ')}`,
      certificates && 'connect with a client certificate',
      (form ?? kubernetes ?? (providers.size > 0 || null)) && `log in at ${names.gatewayPath}`,
    ].filter((way) => typeof way === 'string');
    if (ways.length === 0)
      return 'No authentication method is configured, so all calls are denied (docs/authentication.md).';
    const text = ways.join('; or ');
    return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
  }

  /** RFC 9110 §11.6.1. Browsers get no Basic challenge: they would ask by a window of their own and then send it always. */
  #challenges(browser: boolean, invalidToken: boolean): string[] {
    const realm = `realm="${this.parts.names.product} Gateway"`;
    const bearer = `Bearer ${realm}${invalidToken ? ', error="invalid_token"' : ''}`;
    return this.parts.form !== null && !browser ? [bearer, `Basic ${realm}, charset="UTF-8"`] : [bearer];
  }
}

/** The configured way by which a session's user logged in; of a provider its name. */
export function methodOf(origin: SessionOrigin): string {
  return origin.kind === 'preset' ? 'presetUsers' : origin.kind === 'provider' ? origin.provider : origin.kind;
}

/** Header in which writes by cookie repeat their session's token. */
export function csrfHeader(names: ProductNames): string {
  return names.header('Gateway-CSRF');
}
