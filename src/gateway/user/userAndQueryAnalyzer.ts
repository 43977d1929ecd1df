import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import { noUser, type RequestUser } from '../../model/requestUser.ts';
import type { AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import type { RequestAnalyzer } from '../analysis/requestAnalyzer.ts';
import type { ClientCertificates } from './clientCertificates.ts';
import type { UserGroups } from './groups/userGroups.ts';
import type { MappedUsers } from './mappedUsers.ts';
import { EvidentUser } from './userEvidence.ts';
import type { UserExtractor } from './userExtractor.ts';

export interface UserAndQueryAnalyzerDependencies {
  readonly users: UserExtractor;
  /** Users of client certificates, which have precedence; null or absent: disabled. */
  readonly certificates?: ClientCertificates | null;
  /** Mapping of user names; null or absent: disabled. */
  readonly mapping?: MappedUsers | null;
  /** Groups of users; null or absent: disabled. */
  readonly groups?: UserGroups | null;
  readonly analyze: AnalyzeLongRequest;
  readonly logger: Logger;
}

export interface UserAnalyzer extends RequestAnalyzer {
  /** The user without groups. Neither throws nor rejects. */
  identity(request: IncomingMessage): RequestUser | Promise<RequestUser>;
}

/** Extracts user and query properties of requests. A defect is logged and means "unknown": it never fails a query. */
export function userAndQueryAnalyzer(dependencies: UserAndQueryAnalyzerDependencies): UserAnalyzer {
  const { users, certificates, mapping = null, groups = null, analyze, logger } = dependencies;
  const withoutUser = (error: unknown): RequestUser => {
    logger.error({ err: error }, 'failed to determine user of request');
    return noUser;
  };
  const withoutAnalysis = (error: unknown): null => {
    logger.error({ err: error }, 'failed to analyse request');
    return null;
  };
  const userOf = (request: IncomingMessage, sources: UserGroups | null) =>
    guarded(() => {
      const { rawHeaders: headers, socket } = request;
      const certificate = certificates?.of(request);
      const claimed: RequestUser | Promise<RequestUser> =
        certificate?.kind === 'user' ? new EvidentUser(certificate.user, certificate.evidence) : users.user(headers);
      const mapped = mapping === null ? claimed : after(claimed, (one) => mapping.of(one));
      if (sources === null) return mapped;
      return after(mapped, (one) =>
        one.refusal === undefined ? sources.of(one, { headers, address: socket.remoteAddress }) : one,
      );
    }, withoutUser);
  return {
    user: (request) => userOf(request, groups),
    identity: (request) => userOf(request, null),
    analyze(request, body, isSubmission) {
      const { method = '', rawHeaders: headers } = request;
      const text = body === null ? { body } : { body: body.bytes, utf8Body: body.text };
      const properties = guarded(() => analyze({ method, isSubmission, headers, ...text }), withoutAnalysis);
      const user = userOf(request, groups);
      if (!(user instanceof Promise) && !(properties instanceof Promise)) return { user, queryProperties: properties };
      return Promise.all([user, properties]).then(([one, queryProperties]) => ({ user: one, queryProperties }));
    },
  };
}

/** Continues with a value: synchronously unless it is a promise. */
function after<T, Next>(value: T | Promise<T>, next: (value: T) => Next | Promise<Next>): Next | Promise<Next> {
  return value instanceof Promise ? value.then(next) : next(value);
}

/** Runs a step; its errors are handled, also those of a promise. */
function guarded<T>(step: () => T | Promise<T>, onError: (error: unknown) => T): T | Promise<T> {
  try {
    const result = step();
    return result instanceof Promise ? result.catch(onError) : result;
  } catch (error) {
    return onError(error);
  }
}
