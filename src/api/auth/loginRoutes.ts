import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { FIRST_PROVIDER } from '../../config/consistency.ts';
import { GatewayError } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import { compileCheck } from '../../model/validation.ts';
import type { ApiContext } from '../apiContext.ts';
import { type Call, checkedBody, ofNamespaces, routes } from '../routes.ts';
import { list, nullable, objectOf, oneOf, type ResponseBody, textField } from '../schemas.ts';
import { CALLBACK_PATH, cookieNames, readCookie, readCredentials, setCookie, statePath } from './cookies.ts';
import { accessOfRoute, endpointTable } from './endpointAccess.ts';
import { callerOf } from './guard.ts';
import { type OidcProvider, STATE_SECONDS } from './oidcLogin.ts';
import { type Authentication, methodOf } from './openAuthentication.ts';
import type { Session, SessionOrigin } from './sessions.ts';
import { pagesOf } from './users.ts';

export const UserInfo = Type.Object({
  roles: list(oneOf(['ADMIN', 'USER', 'API']), 'Roles held.'),
  permissions: list(Type.String(), 'Pages that are shown; empty: all.'),
  userId: Type.String(),
  userName: Type.String(),
  method: Type.Optional(
    textField(
      'By which way the caller was recognised, where several are configured: `presetUsers`, `ldap`, `kubernetes`, `certificate`, `oauth`, or the name of a provider or issuer.',
    ),
  ),
});
export type UserInfo = ResponseBody<typeof UserInfo>;

/** Login method (docs/compatibility.md#login); `kubernetes`: a token of the cluster is the password. */
export const LoginType = oneOf(
  ['form', 'oauth', 'kubernetes', 'none'],
  'kubernetes: a token of the cluster is the password.',
);
export type LoginType = ResponseBody<typeof LoginType>;

export const LoginMethod = Type.Union([
  Type.Object({ kind: Type.Literal('form') }, { description: 'Name and password: `POST /login`.' }),
  objectOf(
    { description: 'An OpenID provider.' },
    {
      kind: Type.Literal('provider'),
      name: textField('For `POST /sso/{name}`; `oauth` is that of `authentication.oauth`.'),
      label: textField('What the login page calls it.'),
    },
  ),
  objectOf(
    { description: 'A token of the Kubernetes cluster: `POST /login` with it as the password, and no name.' },
    { kind: Type.Literal('kubernetes') },
  ),
]);
export type LoginMethod = ResponseBody<typeof LoginMethod>;

export const LoginMethods = Type.Object({
  methods: list(LoginMethod, 'In the order of the login page; empty where nobody logs in.'),
});
export type LoginMethods = ResponseBody<typeof LoginMethods>;

/** Longest session token that fits into a cookie with its name and attributes: browsers take 4096 bytes (RFC 6265 §6.1). */
const MAX_SESSION = 3_900;

const LoginRequest = Type.Object({
  username: textField('Name; left empty where the password is a token of the Kubernetes cluster.'),
  password: textField('Password, or token of the Kubernetes cluster.'),
});
const checkLogin = compileCheck(LoginRequest);
const Callback = Type.Object({
  code: Type.Optional(Type.String()),
  state: Type.Optional(Type.String()),
  error: Type.Optional(textField('Why the provider refused, in its words.')),
});
const ProviderInPath = Type.Object({
  provider: Type.String({
    description: 'Name of the provider; `oauth` is that of `authentication.oauth`.',
    maxLength: 63,
  }),
});

const logoutText =
  'Where the browser goes to log out at the OpenID provider as well (`logoutRedirectUrl`); null for none.';

/** Logging in and out (docs/compatibility.md#login). Responses are wrapped as those of /webapp. */
export function loginRoutes(api: ApiContext): void {
  const { authentication } = api;
  const { names, sessions, form, kubernetes, sealedTexts, originOf, pagePermissions } = authentication.parts;
  const route = routes(api, 'login', 'envelope');
  const secureOf = (request: FastifyRequest) => originOf(request.raw).view.scheme === 'https';

  /** Gives the browser the session: scripts cannot read it, and must repeat the other cookie in a header to write. */
  const begin = async ({ request, reply }: Call, user: string, origin: SessionOrigin, endsAt: number | null = null) => {
    const { token, session } = await sessions.start(user, origin, endsAt);
    if (origin.kind === 'kubernetes' && token.length > MAX_SESSION) throw tooLongForSession(token.length);
    const secure = secureOf(request);
    const cookies = cookieNames(names, secure);
    const maxAge = Math.max(1, Math.ceil((session.expires - sessions.now()) / 1000));
    const line = { maxAge, sameSite: 'Strict', secure } as const;
    setCookie(reply, { ...line, name: cookies.session, value: token });
    setCookie(reply, { ...line, name: cookies.csrf, value: session.csrfToken, readable: true });
    recordSession(request, user, null, { by: methodOf(origin) });
    return token;
  };

  route('POST', '/loginType', {
    summary: 'Shows how to log in',
    returns: ['The way of logging in.', LoginType],
    errors: [403],
    handle: ({ reply }) => reply.send({ code: 200, msg: 'Ok', data: authentication.loginType }),
  });

  routes(api, 'login')('GET', '/api/logins', {
    summary: 'Lists all ways of logging in',
    description: '`/loginType` names one of them.',
    returns: ['Ways of logging in.', LoginMethods],
    handle: (): LoginMethods => ({ methods: [...authentication.loginMethods] }),
  });

  // Without authentication Trino Gateway accepts a login without a password.
  const needsNone = authentication.isOpen && names.isReference;
  route('POST', '/login', {
    summary: 'Logs in with name and password',
    description: 'Sets the session as a cookie and answers it as a token for the header Authorization: Bearer.',
    body: checkedBody(LoginRequest, (raw) => checkLogin(needsNone && isRecord(raw) ? { password: '', ...raw } : raw)),
    returns: ['Logged in.', Type.Object({ token: Type.String() })],
    errors: [401, 403, 422, 429, 503],
    handle: async (call) => {
      const { username, password } = call.body;
      const { source } = originOf(call.request.raw);
      if (authentication.isOpen) return { token: username };
      if (form !== null && (kubernetes === null || username !== '')) {
        const origin = await form.check(username, password, source);
        if (origin === null) throw new GatewayError('EG_UNAUTHENTICATED', 'Authentication failed.');
        return { token: await begin(call, username, origin) };
      }
      if (kubernetes !== null) {
        const reviewed = await kubernetes.review(password, source);
        if (typeof reviewed === 'string')
          throw new GatewayError('EG_UNAUTHENTICATED', `Authentication failed. ${reviewed}`);
        const { name } = reviewed.identity;
        const origin: SessionOrigin = { kind: 'kubernetes', token: await sealedTexts.seal(password, `user ${name}`) };
        return { token: await begin(call, name, origin, reviewed.expires) };
      }
      const message =
        authentication.loginType === 'none'
          ? 'Nobody can log in: "authentication" in the configuration holds neither form nor oauth.'
          : 'Users log in at an OpenID provider here: POST /sso.';
      throw new GatewayError('EG_IMPOSSIBLE', message);
    },
  });

  /** Ends a session. Returns where the browser goes to log out at its provider as well; null for none. */
  const end = async (request: FastifyRequest, session: Session): Promise<string | null> => {
    await sessions.end(session);
    const { user, origin } = session;
    recordSession(request, user, { by: methodOf(origin) }, null);
    if (origin.kind !== 'provider') return null;
    const place = authentication.provider(origin.provider)?.logoutUrl() ?? null;
    // The session has ended here, whether or not its provider can be asked where it ends there.
    return await Promise.resolve(place).catch((err: unknown) => {
      const message = 'OpenID provider has no end-session endpoint; user logged out of the gateway only';
      api.logger.warn({ err }, message);
      return null;
    });
  };

  route('POST', '/logout', {
    summary: 'Logs out',
    description: 'Ends the session on every replica. Without a session nothing happens.',
    returns: ['Logged out.', nullable(Type.String(), logoutText)],
    errors: [403],
    handle: async ({ request, reply }) => {
      const { headers } = request;
      const secure = secureOf(request);
      const cookies = cookieNames(names, secure);
      const credentials = readCredentials(headers.authorization, readCookie(headers.cookie, cookies.session));
      const hasToken = credentials.kind === 'bearer' || credentials.kind === 'cookie';
      const read = hasToken ? await sessions.read(credentials.token) : null;
      const providerLogout = read !== null && 'session' in read ? await end(request, read.session) : null;
      for (const name of [cookies.session, cookies.csrf]) {
        const isSent = readCookie(headers.cookie, name) !== undefined;
        if (isSent) setCookie(reply, { name, value: '', maxAge: 0, sameSite: 'Strict', secure });
      }
      return providerLogout;
    },
  });

  route('POST', '/userinfo', {
    summary: 'Shows the caller',
    returns: ['The caller.', UserInfo],
    errors: [401, 403, 429, 503],
    options: ofNamespaces,
    handle: async ({ request }): Promise<UserInfo> => {
      const { name, roles, method } = callerOf(request);
      const callerRoles = await roles();
      const permissions = [...pagesOf(callerRoles, pagePermissions)];
      // With one way of logging in the response is that of the reference.
      const way = method === null || authentication.loginMethods.length < 2 ? {} : { method };
      return { roles: [...callerRoles], permissions, userId: name, userName: name, ...way };
    },
  });

  const stateCookie = (request: FastifyRequest) => {
    const secure = secureOf(request);
    return { name: cookieNames(names, secure).oidc, path: statePath(secure), sameSite: 'Lax', secure } as const;
  };
  const beginAt = async ({ request, reply }: Call, provider: OidcProvider) => {
    const { url, state } = await provider.begin();
    setCookie(reply, { ...stateCookie(request), value: state, maxAge: STATE_SECONDS });
    return reply.send({ code: 200, msg: 'Ok', data: url });
  };
  const finishAt = async (call: Call, provider: OidcProvider) => {
    const { request, reply } = call;
    const cookie = stateCookie(request);
    const sealed = readCookie(request.headers.cookie, cookie.name);
    // Whatever comes of it, the state is used up.
    setCookie(reply, { ...cookie, value: '', maxAge: 0 });
    const mark = request.url.indexOf('?');
    const { user, privileges } = await provider.finish(mark < 0 ? '' : request.url.slice(mark), sealed);
    const { name, settings } = provider;
    await begin(call, user, { kind: 'provider', provider: name, privileges });
    return reply.redirect(settings.redirectWebUrl ?? '/', 302);
  };

  const named = (params: unknown, absent: string | null): OidcProvider => {
    const name = (params as { readonly provider?: string }).provider ?? absent;
    return authentication.provider(name) ?? rejectProvider(authentication, name);
  };
  // Each provider has its own callback, so that responses cannot be mixed up (RFC 9700 §4.4.2).
  for (const { path, sso, callback } of [
    {
      path: '',
      sso: {
        summary: 'Begins a login at the OpenID provider',
        description:
          'Answers where the browser goes, and sets a cookie with the sealed state of the login. Of several providers that of `authentication.oauth`.',
      },
      callback: {
        summary: "Takes the OpenID provider's answer",
        description: 'Sets the session as a cookie and leads the browser on.',
      },
    },
    {
      path: '/:provider',
      sso: {
        summary: 'Begins a login at one of several OpenID providers',
        description: 'As `/sso`; `/api/logins` lists the providers.',
        params: ProviderInPath,
      },
      callback: {
        summary: 'Takes the answer of one of several OpenID providers',
        description: 'As `/oidc/callback`; an answer of another provider is refused.',
        params: ProviderInPath,
      },
    },
  ]) {
    route('POST', `/sso${path}`, {
      ...sso,
      returns: ['Address at the provider.', Type.String()],
      errors: [403, 422, 503],
      handle: (call) => beginAt(call, named(call.params, null)),
    });
    route('GET', `${CALLBACK_PATH}${path}`, {
      ...callback,
      query: Callback,
      responses: { 302: { description: 'Logged in.', type: 'null' } },
      errors: [401, 422, 503],
      handle: (call) => finishAt(call, named(call.params, FIRST_PROVIDER)),
    });
  }
}

function recordSession(request: FastifyRequest, user: string, before: unknown, after: unknown): void {
  request.changes.push({ object: `session of ${user}`, subject: null, regarding: null, before, after });
}

function tooLongForSession(length: number): GatewayError {
  const message = `The session would take ${length} bytes, and a browser keeps ${MAX_SESSION}: log in with a shorter token, such as one of kubectl create token, or send yours as Authorization: Bearer.`;
  return new GatewayError('EG_IMPOSSIBLE', message);
}

/** @throws GatewayError EG_IMPOSSIBLE naming what there is */
function rejectProvider({ parts: { providers } }: Authentication, name: string | null): never {
  const others = [...providers.keys()].filter((each) => each !== FIRST_PROVIDER);
  const paths = others.map((each) => `/sso/${each}`).join(', ');
  const what =
    name === null || name === FIRST_PROVIDER
      ? 'No OpenID provider is configured (authentication.oauth)'
      : 'There is no OpenID provider of this name (authentication.providers)';
  throw new GatewayError('EG_IMPOSSIBLE', paths === '' ? `${what}.` : `${what}; log in by POST ${paths}.`);
}

/** Configuration of the web application (`uiConfiguration`). */
export const UiConfiguration = Type.Object({ disablePages: Type.Optional(Type.Array(Type.String())) });
export type UiConfiguration = ResponseBody<typeof UiConfiguration>;

export const UsablePages = Type.Object({
  pages: Type.Array(textField('Name of a page, as in disablePages: history, routing-rules, …')),
});
export type UsablePages = ResponseBody<typeof UsablePages>;

const mainCalls: Readonly<Record<string, readonly [method: string, url: string]>> = {
  dashboard: ['GET', '/api/overview'],
  cluster: ['GET', '/api/clusters'],
  history: ['POST', '/api/history/search'],
  workload: ['GET', '/api/digests'],
  replays: ['GET', '/api/replays'],
  // Callers that may not list rules can explain their own requests there.
  'routing-rules': ['POST', '/api/explain'],
  limits: ['GET', '/api/groups'],
  queue: ['GET', '/api/queue'],
  audit: ['GET', '/api/audit'],
  'resource-group': ['POST', '/webapp/findResourceGroup'],
};

/** The web application's configuration (`uiConfiguration`). */
export function configurationRoute(api: ApiContext): void {
  const { disablePages } = api.ui;
  routes(api, 'web application: configuration', 'envelope')('GET', '/webapp/getUIConfiguration', {
    summary: 'Shows which pages are switched off',
    returns: ['The configuration.', UiConfiguration],
    handle: (): UiConfiguration => (disablePages.length === 0 ? {} : { disablePages: [...disablePages] }),
  });
}

/** Which pages the caller has the role, or the rights, for (docs/authentication.md#pages). */
export function pageRoutes(api: ApiContext): void {
  const { parts } = api.authentication;
  const table = endpointTable(parts.names, parts.webappReadRole, parts.publicReads);
  const accesses = Object.entries(mainCalls).map(
    ([page, [method, url]]) => [page, accessOfRoute(table, method, url, undefined)] as const,
  );

  routes(api, 'login')('GET', '/api/pages', {
    summary: 'Lists the pages that the caller may use',
    description: 'By role or rights alone: `/userinfo` and `/webapp/getUIConfiguration` say what is hidden.',
    returns: ['Names of the pages.', UsablePages],
    errors: [503],
    options: ofNamespaces,
    handle: async ({ request }): Promise<UsablePages> => {
      const caller = callerOf(request);
      const pages: string[] = [];
      // Their lists have the objects of the namespaces of the caller.
      const listed =
        request.namespaces === null
          ? []
          : ['cluster', 'limits', 'history', 'workload', 'replays', 'queue', 'routing-rules'];
      for (const [page, access] of accesses)
        if (access === 'public' || listed.includes(page) || (await caller.permits(access))) pages.push(page);
      return { pages };
    },
  });
}
