import type { FastifyReply, FastifyRequest } from 'fastify';
import { FIRST_PROVIDER } from '../../config/issuerChecks.ts';
import type { ClientCertificates } from '../../gateway/user/clientCertificates.ts';
import { GatewayError } from '../../model/errors.ts';
import type { ProductNames } from '../../model/names.ts';
import type { LoginMethod, LoginType } from '../answers/session.ts';
import type { ComponentState } from '../probes.ts';
import type { LoginSource } from './attemptLimit.ts';
import { type Caller, callerWithRoles, openCaller, type Recognition } from './caller.ts';
import type { Origin } from './clientAddress.ts';
import { cookieNames, REFERENCE_TOKEN_COOKIE, readCookie, readCredentials } from './cookies.ts';
import type { WebappReadRole } from './endpointAccess.ts';
import { isBrowser, isSafeMethod, requireTokenHeader } from './guard.ts';
import type { IssuedTokens } from './issuedTokens.ts';
import type { KubernetesAccess } from './kubernetesAccess.ts';
import type { OidcLogin } from './oidcLogin.ts';
import type { FormLogin, PresetUsers } from './presetUsers.ts';
import type { Privileges } from './privileges.ts';
import type { SealedTokens, Session, SessionOrigin, Sessions } from './sessions.ts';

/** The configured ways of recognising callers; null if one is not configured. */
export interface AuthenticationParts {
  /** True if every call passes with all roles; without it, and without any way, none does. */
  readonly isOpen: boolean;
  readonly names: ProductNames;
  readonly sessions: Sessions;
  readonly presets: PresetUsers;
  readonly privileges: Privileges;
  readonly form: FormLogin | null;
  /** OpenID providers at which users log in, by name, in the order of the login page. */
  readonly providers: ReadonlyMap<string, OidcLogin>;
  readonly issuedTokens: IssuedTokens;
  readonly kubernetes: KubernetesAccess | null;
  /** Users of client certificates, for programs; null if they are not recognised by them. */
  readonly certificates: ClientCertificates | null;
  readonly sealedTokens: SealedTokens;
  readonly pagePermissions: Readonly<Record<string, string | null>>;
  /** Null: the default of the product. */
  readonly webappReadRole: WebappReadRole;
  readonly publicReads: boolean;
  readonly originOf: (request: FastifyRequest['raw']) => Origin;
}

const GONE = 'The user of the session is not known any more.';

/** Recognises callers (docs/authentication.md#ways-of-recognising-callers). */
export class Authentication {
  readonly parts: AuthenticationParts;
  readonly loginType: LoginType;

  constructor(parts: AuthenticationParts) {
    this.parts = parts;
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
      ...Array.from(providers.values(), ({ of: { name, label } }) => ({ kind: 'provider', name, label }) as const),
      ...(kubernetes === null ? [] : [{ kind: 'kubernetes' } as const]),
    ];
  }

  /** The provider of a name; without one the first, or the only one; null where none is meant. */
  provider(name: string | null): OidcLogin | null {
    const { providers } = this.parts;
    if (name !== null) return providers.get(name) ?? null;
    const [only, ...others] = providers.values();
    return providers.get(FIRST_PROVIDER) ?? (others.length === 0 ? (only ?? null) : null);
  }

  /** True when nothing is configured: everybody may do everything. */
  get isOpen(): boolean {
    return this.parts.isOpen;
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
   * Recognises the caller of a request.
   * @throws GatewayError EG_UNAUTHENTICATED (the challenge is on the reply), EG_FORBIDDEN (a write by cookie without its
   * header), EG_TOO_MANY_ATTEMPTS, EG_IDENTITY_UNAVAILABLE
   */
  async callerOf(request: FastifyRequest, reply: FastifyReply): Promise<Caller> {
    if (this.isOpen) return openCaller;
    const origin = this.parts.originOf(request.raw);
    const { headers } = request;
    const cookies = cookieNames(this.parts.names, origin.view.scheme === 'https');
    const ownSession = readCookie(headers.cookie, cookies.session);
    const referenceToken = this.parts.names.isReference
      ? readCookie(headers.cookie, REFERENCE_TOKEN_COOKIE)
      : undefined;
    const credentials = readCredentials(headers.authorization, ownSession ?? referenceToken);
    const refuse = (why: string, invalidToken = false): GatewayError => {
      reply.header('WWW-Authenticate', this.#challenges(isBrowser(headers), invalidToken));
      return new GatewayError('EG_UNAUTHENTICATED', why);
    };
    switch (credentials.kind) {
      case 'none': {
        const caller = await this.#ofCertificate(request);
        if (typeof caller === 'string') throw refuse(caller);
        if (caller !== null) return caller;
        throw refuse(`The request has no credentials. ${this.#accepted()}`);
      }
      case 'unreadable':
        throw refuse(credentials.why);
      case 'basic': {
        if (this.parts.form === null) throw refuse(`Basic credentials are not accepted here. ${this.#accepted()}`);
        const userOrigin = await this.parts.form.checkAgain(credentials.name, credentials.password, origin.source);
        if (userOrigin === null) throw refuse('Name or password are wrong.');
        const caller = await this.#callerFrom(credentials.name, userOrigin, 'basic', origin.source);
        if (typeof caller === 'string') throw refuse('Name or password are wrong.');
        return caller;
      }
      case 'bearer': {
        const caller = await this.#bearer(credentials.token, origin.source);
        if (typeof caller === 'string') throw refuse(caller, true);
        return caller;
      }
      case 'cookie': {
        const session = await this.sessionOf(credentials.token, origin.source);
        if (typeof session === 'string') throw refuse(session, true);
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
    if (kubernetes === null) return issuedTokens.refusalOf(token);
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
    if (certificate.kind === 'refused') return certificate.why;
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
      case 'oauth':
      case 'provider': {
        const method = methodOf(origin);
        const provider = providers.get(method);
        if (provider === undefined) return GONE;
        const text = origin.privileges ?? (await privileges.of(user));
        const ownRoles = await privileges.rolesOf(user, text, { mapping: provider.of.rolesOf });
        return callerWithRoles(user, by, ownRoles, method);
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
    const { kubernetes, sealedTokens } = this.parts;
    const token = kubernetes === null || typeof sealed !== 'string' ? null : await sealedTokens.open(sealed, user);
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
  switch (origin.kind) {
    case 'preset':
      return 'presetUsers';
    case 'oauth':
      return FIRST_PROVIDER;
    case 'provider':
      return origin.provider;
    default:
      return origin.kind;
  }
}

/** Header in which writes by cookie repeat their session's token. */
export function csrfHeader(names: ProductNames): string {
  return names.header('Gateway-CSRF');
}
