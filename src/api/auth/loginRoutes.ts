import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { Type } from 'typebox';
import { GatewayError } from '../../model/errors.ts';
import { isRecord } from '../../model/record.ts';
import { compileCheck } from '../../model/validation.ts';
import { LoginType, UserInfo } from '../answers/session.ts';
import { malformed } from '../errors.ts';
import { jsonBody } from '../jsonBody.ts';
import { envelopeErrors, failureAnswers, succeed, successAnswer } from '../webapp/envelope.ts';
import { recordChange } from './audit.ts';
import type { Authentication } from './authentication.ts';
import { CALLBACK_PATH, cookieNames, readCookie, setCookie, statePath } from './cookies.ts';
import { readCredentials } from './credentials.ts';
import { callerOf } from './guard.ts';
import { STATE_SECONDS } from './oidcLogin.ts';
import { pagesOf } from './roleMapping.ts';
import type { Session, SessionOrigin } from './sessions.ts';

/** Dependencies of the login routes. */
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

/** Logging in and out (docs/compatibility.md#login). Answers are wrapped as those of /webapp. */
export async function loginRoutes(app: FastifyInstance, { authentication, logger }: LoginRoutes): Promise<void> {
  envelopeErrors(app, { logger });
  const { names, sessions, form, oidc, kubernetes, sealedTokens, originOf, pagePermissions, redirectWebUrl } =
    authentication.parts;

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
    recordChange(request, { object: `session of ${user}`, regarding: null, before: null, after: { by: origin.kind } });
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
      // Where nobody is asked for a password the reference takes a login without one.
      const needsNone = authentication.isOpen && names.isReference;
      const checked = parseLogin(needsNone && isRecord(body) ? { password: '', ...body } : body);
      if (!checked.ok) throw malformed(checked.problems);
      const { username, password } = checked.value;
      if (authentication.isOpen) return succeed(reply, { token: username });
      if (form !== null) {
        const origin = await form.check(username, password, originOf(request.raw).source);
        if (origin === null) throw new GatewayError('EG_UNAUTHENTICATED', 'Authentication failed.');
        return succeed(reply, { token: await begin(request, reply, username, origin) });
      }
      if (kubernetes !== null) {
        const reviewed = await kubernetes.review(password, originOf(request.raw).source);
        if (typeof reviewed === 'string')
          throw new GatewayError('EG_UNAUTHENTICATED', `Authentication failed. ${reviewed}`);
        const { name } = reviewed.identity;
        const origin: SessionOrigin = { kind: 'kubernetes', token: sealedTokens.seal(password, name) };
        return succeed(reply, { token: await begin(request, reply, name, origin, reviewed.expires) });
      }
      if (authentication.loginType === 'none') {
        const fix = 'Nobody can log in: "authentication" in the configuration holds neither form nor oauth.';
        throw new GatewayError('EG_IMPOSSIBLE', fix);
      }
      throw new GatewayError('EG_IMPOSSIBLE', 'Users log in at the OpenID provider here: POST /sso.');
    },
  );

  app.post(
    '/logout',
    {
      schema: {
        tags,
        summary: 'Logs out',
        description: 'Ends the session on every replica. Without a session nothing happens.',
        response: { 200: successAnswer('Logged out.', Type.Null()), ...failureAnswers(403) },
      },
    },
    async (request, reply) => {
      const { headers } = request;
      const secure = secureOf(request);
      const cookies = cookieNames(names, secure);
      const credentials = readCredentials(headers.authorization, readCookie(headers.cookie, cookies.session));
      if (credentials.kind === 'bearer' || credentials.kind === 'cookie') {
        const read = await sessions.read(credentials.token);
        if (read !== null && 'session' in read) {
          await sessions.end(read.session);
          const { user, origin } = read.session;
          recordChange(request, {
            object: `session of ${user}`,
            regarding: null,
            before: { by: origin.kind },
            after: null,
          });
        }
      }
      for (const name of [cookies.session, cookies.csrf]) {
        const isSent = readCookie(headers.cookie, name) !== undefined;
        if (isSent) setCookie(reply, { name, value: '', maxAge: 0, sameSite: 'Strict', secure });
      }
      return succeed(reply);
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
      const { name, roles } = callerOf(request);
      const callerRoles = await roles();
      const permissions = pagesOf(callerRoles, pagePermissions);
      return succeed(reply, { roles: [...callerRoles], permissions, userId: name, userName: name } satisfies UserInfo);
    },
  );

  app.post(
    '/sso',
    {
      schema: {
        tags,
        summary: 'Begins a login at the OpenID provider',
        description: 'Answers where the browser goes, and sets a cookie with the sealed state of the login.',
        response: { 200: successAnswer('Address at the provider.', Type.String()), ...failureAnswers(403, 422, 503) },
      },
    },
    async (request, reply) => {
      if (oidc === null) throw notConfigured();
      const { url, state } = await oidc.begin();
      const secure = secureOf(request);
      const name = cookieNames(names, secure).oidc;
      setCookie(reply, { name, value: state, maxAge: STATE_SECONDS, path: statePath(secure), sameSite: 'Lax', secure });
      return reply.send({ code: 200, msg: 'Ok', data: url });
    },
  );

  app.get(
    CALLBACK_PATH,
    {
      schema: {
        tags,
        summary: "Takes the OpenID provider's answer",
        description: 'Sets the session as a cookie and leads the browser on.',
        querystring: Callback,
        response: { 302: { description: 'Logged in.', type: 'null' }, ...failureAnswers(400, 401, 422, 503) },
      },
    },
    async (request, reply) => {
      if (oidc === null) throw notConfigured();
      const secure = secureOf(request);
      const name = cookieNames(names, secure).oidc;
      const sealed = readCookie(request.headers.cookie, name);
      // Whatever comes of it, the state is used up.
      setCookie(reply, { name, value: '', maxAge: 0, path: statePath(secure), sameSite: 'Lax', secure });
      const mark = request.url.indexOf('?');
      const { user, privileges } = await oidc.finish(mark < 0 ? '' : request.url.slice(mark), sealed);
      await begin(request, reply, user, { kind: 'oauth', privileges });
      return reply.redirect(redirectWebUrl, 302);
    },
  );
}

function tooLongForSession(length: number): GatewayError {
  const message = `The session would take ${length} bytes, and a browser keeps ${MAX_SESSION}: log in with a shorter token, such as one of kubectl create token, or send yours as Authorization: Bearer.`;
  return new GatewayError('EG_IMPOSSIBLE', message);
}

function notConfigured(): GatewayError {
  return new GatewayError('EG_IMPOSSIBLE', 'No OpenID provider is configured (authentication.oauth).');
}
