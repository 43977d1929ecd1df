import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { type Static, Type } from 'typebox';
import { FIRST_PROVIDER } from '../../config/issuerChecks.ts';
import { GatewayError } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import { compileCheck } from '../../model/validation.ts';
import { LoginMethods, LoginType, UserInfo } from '../answers/session.ts';
import { malformed } from '../errors.ts';
import { jsonBody } from '../jsonBody.ts';
import { answer } from '../schemas.ts';
import { envelopeErrors, failureAnswers, succeed, successAnswer } from '../webapp/envelope.ts';
import { recordChange } from './audit.ts';
import { type Authentication, methodOf } from './authentication.ts';
import { CALLBACK_PATH, cookieNames, readCookie, setCookie, statePath } from './cookies.ts';
import { readCredentials } from './credentials.ts';
import { callerOf } from './guard.ts';
import { type OidcLogin, STATE_SECONDS } from './oidcLogin.ts';
import { pagesOf } from './roleMapping.ts';
import type { Session, SessionOrigin } from './sessions.ts';

export interface LoginRoutes {
  readonly authentication: Authentication;
  readonly logger: Logger;
}

const tags = ['login'];

/** Longest session token that fits into a cookie with its name and attributes: browsers take 4096 bytes (RFC 6265 §6.1). */
const MAX_SESSION = 3_900;

const LoginRequest = Type.Object({
  username: Type.String({ description: 'Name; left empty where the password is a token of the Kubernetes cluster.' }),
  password: Type.String({ description: 'Password, or token of the Kubernetes cluster.' }),
});
const parseLogin = compileCheck(LoginRequest);
const Callback = Type.Object({
  code: Type.Optional(Type.String()),
  state: Type.Optional(Type.String()),
  error: Type.Optional(Type.String({ description: 'Why the provider refused, in its words.' })),
});

const ProviderParams = Type.Object({
  provider: Type.String({
    description: 'Name of the provider; `oauth` is that of `authentication.oauth`.',
    maxLength: 63,
  }),
});
type ProviderParams = Static<typeof ProviderParams>;

const logoutText =
  'Where the browser goes to log out at the OpenID provider as well (`logoutRedirectUrl`); null for none.';

/** Logging in and out (docs/compatibility.md#login). Responses are wrapped as those of /webapp. */
export async function loginRoutes(app: FastifyInstance, { authentication, logger }: LoginRoutes): Promise<void> {
  envelopeErrors(app, { logger });
  const { names, sessions, form, kubernetes, sealedTokens, originOf, pagePermissions } = authentication.parts;

  const secureOf = (request: FastifyRequest) => originOf(request.raw).view.scheme === 'https';

  /** Gives the browser the session: scripts cannot read it, and must repeat the other cookie in a header to write. */
  const setSession = (request: FastifyRequest, reply: FastifyReply, token: string, session: Session) => {
    const secure = secureOf(request);
    const cookies = cookieNames(names, secure);
    const maxAge = Math.max(1, Math.ceil((session.expires - sessions.now()) / 1000));
    setCookie(reply, { name: cookies.session, value: token, maxAge, sameSite: 'Strict', secure });
    setCookie(reply, {
      name: cookies.csrf,
      value: session.csrfToken,
      maxAge,
      sameSite: 'Strict',
      secure,
      readable: true,
    });
  };

  const noProviderLogout = (err: unknown): null => {
    logger.warn({ err }, 'the OpenID provider does not say where it ends sessions: the user is logged out here alone');
    return null;
  };

  const begin = async (
    request: FastifyRequest,
    reply: FastifyReply,
    user: string,
    origin: SessionOrigin,
    endsAt: number | null = null,
  ) => {
    const { token, session } = await sessions.start(user, origin, endsAt);
    if (origin.kind === 'kubernetes' && token.length > MAX_SESSION) throw tooLongForSession(token.length);
    setSession(request, reply, token, session);
    recordSession(request, user, null, { by: methodOf(origin) });
    return token;
  };

  app.post(
    '/loginType',
    {
      schema: {
        tags,
        summary: 'Shows how to log in',
        response: {
          200: successAnswer('The way of logging in.', LoginType),
          ...failureAnswers(403),
        },
      },
    },
    (_request, reply) => reply.send({ code: 200, msg: 'Ok', data: authentication.loginType }),
  );

  app.get(
    '/api/logins',
    {
      schema: {
        tags,
        summary: 'Lists all ways of logging in',
        description: '`/loginType` names one of them.',
        response: { 200: answer('Ways of logging in.', LoginMethods) },
      },
    },
    (_request, reply) => reply.send({ methods: [...authentication.loginMethods] } satisfies LoginMethods),
  );

  app.post(
    '/login',
    {
      schema: {
        tags,
        summary: 'Logs in with name and password',
        description: 'Sets the session as a cookie and answers it as a token for the header Authorization: Bearer.',
        body: LoginRequest,
        response: {
          200: successAnswer('Logged in.', Type.Object({ token: Type.String() })),
          ...failureAnswers(400, 401, 403, 413, 415, 422, 429, 503),
        },
      },
    },
    async (request, reply) => {
      const body = jsonBody(request);
      // Without authentication Trino Gateway accepts a login without a password.
      const needsNone = authentication.isOpen && names.isReference;
      const checked = parseLogin(needsNone && isRecord(body) ? { password: '', ...body } : body);
      if (!checked.ok) throw malformed(checked.problems);
      const { username, password } = checked.value;
      if (authentication.isOpen) return succeed(reply, { token: username });
      const isToken = kubernetes !== null && username === '';
      if (form !== null && !isToken) {
        const origin = await form.check(username, password, originOf(request.raw).source);
        if (origin === null) throw new GatewayError('EG_UNAUTHENTICATED', 'Authentication failed.');
        return succeed(reply, { token: await begin(request, reply, username, origin) });
      }
      if (kubernetes !== null) {
        const reviewed = await kubernetes.review(password, originOf(request.raw).source);
        if (typeof reviewed === 'string')
          throw new GatewayError('EG_UNAUTHENTICATED', `Authentication failed. ${reviewed}`);
        const { name } = reviewed.identity;
        const origin: SessionOrigin = { kind: 'kubernetes', token: await sealedTokens.seal(password, name) };
        return succeed(reply, { token: await begin(request, reply, name, origin, reviewed.expires) });
      }
      if (authentication.loginType === 'none') {
        const fix = 'Nobody can log in: "authentication" in the configuration holds neither form nor oauth.';
        throw new GatewayError('EG_IMPOSSIBLE', fix);
      }
      throw new GatewayError('EG_IMPOSSIBLE', 'Users log in at an OpenID provider here: POST /sso.');
    },
  );

  app.post(
    '/logout',
    {
      schema: {
        tags,
        summary: 'Logs out',
        description: 'Ends the session on every replica. Without a session nothing happens.',
        response: {
          200: successAnswer('Logged out.', Type.Union([Type.Null(), Type.String()], { description: logoutText })),
          ...failureAnswers(403),
        },
      },
    },
    async (request, reply) => {
      const { headers } = request;
      const secure = secureOf(request);
      const cookies = cookieNames(names, secure);
      let providerLogout: string | null = null;
      const credentials = readCredentials(headers.authorization, readCookie(headers.cookie, cookies.session));
      if (credentials.kind === 'bearer' || credentials.kind === 'cookie') {
        const read = await sessions.read(credentials.token);
        if (read !== null && 'session' in read) {
          await sessions.end(read.session);
          const { user, origin } = read.session;
          if (origin.kind === 'oauth' || origin.kind === 'provider') {
            const place = authentication.provider(methodOf(origin))?.logoutUrl();
            // The session has ended here, whether or not its provider can be asked where it ends there.
            providerLogout = (await place?.catch((err: unknown) => noProviderLogout(err))) ?? null;
          }
          recordSession(request, user, { by: methodOf(origin) }, null);
        }
      }
      for (const name of [cookies.session, cookies.csrf]) {
        const isSent = readCookie(headers.cookie, name) !== undefined;
        if (isSent) setCookie(reply, { name, value: '', maxAge: 0, sameSite: 'Strict', secure });
      }
      return providerLogout === null ? succeed(reply) : succeed(reply, providerLogout);
    },
  );

  app.post(
    '/userinfo',
    {
      schema: {
        tags,
        summary: 'Shows the caller',
        response: {
          200: successAnswer('The caller.', UserInfo),
          ...failureAnswers(401, 403, 429, 503),
        },
      },
    },
    async (request, reply) => {
      const { name, roles, method } = callerOf(request);
      const callerRoles = await roles();
      const permissions = pagesOf(callerRoles, pagePermissions);
      // With one way of logging in the response is that of the reference.
      const way = method === null || authentication.loginMethods.length < 2 ? {} : { method };
      const user: UserInfo = { roles: [...callerRoles], permissions, userId: name, userName: name, ...way };
      return succeed(reply, user);
    },
  );

  const beginAt = async (request: FastifyRequest, reply: FastifyReply, provider: OidcLogin) => {
    const { url, state } = await provider.begin();
    const secure = secureOf(request);
    const name = cookieNames(names, secure).oidc;
    setCookie(reply, { name, value: state, maxAge: STATE_SECONDS, path: statePath(secure), sameSite: 'Lax', secure });
    return reply.send({ code: 200, msg: 'Ok', data: url });
  };

  const finishAt = async (request: FastifyRequest, reply: FastifyReply, provider: OidcLogin) => {
    const secure = secureOf(request);
    const cookie = cookieNames(names, secure).oidc;
    const sealed = readCookie(request.headers.cookie, cookie);
    // Whatever comes of it, the state is used up.
    setCookie(reply, { name: cookie, value: '', maxAge: 0, path: statePath(secure), sameSite: 'Lax', secure });
    const mark = request.url.indexOf('?');
    const { user, privileges } = await provider.finish(mark < 0 ? '' : request.url.slice(mark), sealed);
    const { name, redirectWebUrl } = provider.of;
    const origin: SessionOrigin =
      name === FIRST_PROVIDER ? { kind: 'oauth', privileges } : { kind: 'provider', provider: name, privileges };
    await begin(request, reply, user, origin);
    return reply.redirect(redirectWebUrl, 302);
  };

  const named = (name: string | null): OidcLogin =>
    authentication.provider(name) ?? refuseProvider(authentication, name);
  const ssoAnswers = {
    200: successAnswer('Address at the provider.', Type.String()),
    ...failureAnswers(403, 422, 503),
  };
  const callbackAnswers = { 302: { description: 'Logged in.', type: 'null' }, ...failureAnswers(400, 401, 422, 503) };
  // Each provider has its own callback, so that responses cannot be mixed up (RFC 9700 §4.4.2).
  const places = [
    {
      path: '',
      sso: {
        summary: 'Begins a login at the OpenID provider',
        description:
          'Answers where the browser goes, and sets a cookie with the sealed state of the login. Of several providers that of `authentication.oauth`.',
        response: ssoAnswers,
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
        params: ProviderParams,
        response: { ...ssoAnswers, ...failureAnswers(400) },
      },
      callback: {
        summary: 'Takes the answer of one of several OpenID providers',
        description: 'As `/oidc/callback`; an answer of another provider is refused.',
        params: ProviderParams,
      },
    },
  ];
  for (const { path, sso, callback } of places) {
    app.post<{ Params: Partial<ProviderParams> }>(`/sso${path}`, { schema: { tags, ...sso } }, (request, reply) =>
      beginAt(request, reply, named(request.params.provider ?? null)),
    );
    const schema = { tags, ...callback, querystring: Callback, response: callbackAnswers };
    app.get<{ Params: Partial<ProviderParams> }>(`${CALLBACK_PATH}${path}`, { schema }, (request, reply) =>
      finishAt(request, reply, named(request.params.provider ?? FIRST_PROVIDER)),
    );
  }
}

function recordSession(request: FastifyRequest, user: string, before: unknown, after: unknown): void {
  recordChange(request, { object: `session of ${user}`, subject: null, regarding: null, before, after });
}

function tooLongForSession(length: number): GatewayError {
  const message = `The session would take ${length} bytes, and a browser keeps ${MAX_SESSION}: log in with a shorter token, such as one of kubectl create token, or send yours as Authorization: Bearer.`;
  return new GatewayError('EG_IMPOSSIBLE', message);
}

/** @throws GatewayError EG_IMPOSSIBLE naming what there is */
function refuseProvider({ parts: { providers } }: Authentication, name: string | null): never {
  const others = [...providers.keys()].filter((each) => each !== FIRST_PROVIDER);
  const paths = others.map((each) => `/sso/${each}`).join(', ');
  const what =
    name === null || name === FIRST_PROVIDER
      ? 'No OpenID provider is configured (authentication.oauth)'
      : 'There is no OpenID provider of this name (authentication.providers)';
  throw new GatewayError('EG_IMPOSSIBLE', paths === '' ? `${what}.` : `${what}; log in by POST ${paths}.`);
}
