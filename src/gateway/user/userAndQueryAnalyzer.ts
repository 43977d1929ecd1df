import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import { noUser, type RequestUser } from '../../model/requestUser.ts';
import type { AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import type { Analysis, RequestAnalyzer } from '../analysis/requestAnalyzer.ts';
import type { BodyStart } from '../bodies/body.ts';
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
export function userAndQueryAnalyzer({
  users,
  certificates,
  mapping = null,
  groups = null,
  analyze,
  logger,
}: UserAndQueryAnalyzerDependencies): UserAnalyzer {
  const userOf = (request: IncomingMessage, sources: UserGroups | null): RequestUser | Promise<RequestUser> => {
    try {
      const certificate = certificates?.of(request);
      const claimed =
        certificate?.kind === 'user'
          ? new EvidentUser(certificate.user, certificate.evidence)
          : users.user(request.rawHeaders);
      const result = mapping === null ? claimed : mapped(claimed, mapping);
      if (sources !== null) return grouped(request, sources, result);
      return result instanceof Promise ? result.catch((error: unknown) => failedUser(error)) : result;
    } catch (error) {
      return failedUser(error);
    }
  };
  const user = (request: IncomingMessage) => userOf(request, groups);
  const mapped = (user: RequestUser | Promise<RequestUser>, by: MappedUsers) =>
    user instanceof Promise ? user.then((one) => by.of(one)) : by.of(user);
  const grouped = (
    { rawHeaders: headers, socket }: IncomingMessage,
    sources: UserGroups,
    result: RequestUser | Promise<RequestUser>,
  ): RequestUser | Promise<RequestUser> => {
    const ask = (one: RequestUser) =>
      one.refusal === undefined ? sources.of(one, { headers, address: socket.remoteAddress }) : one;
    return result instanceof Promise ? result.then(ask).catch((error: unknown) => failedUser(error)) : ask(result);
  };
  const failedUser = (error: unknown): RequestUser => {
    logger.error({ err: error }, 'the user of a request cannot be found');
    return noUser;
  };
  const properties = (
    request: IncomingMessage,
    body: BodyStart | null,
    isSubmission: boolean,
  ): QueryProperties | null | Promise<QueryProperties | null> => {
    const { method = '', rawHeaders: headers } = request;
    try {
      const result =
        body === null
          ? analyze({ method, isSubmission, headers, body })
          : analyze({ method, isSubmission, headers, body: body.bytes, utf8Body: body.text });
      return result instanceof Promise ? result.catch((error: unknown) => failedAnalysis(error)) : result;
    } catch (error) {
      return failedAnalysis(error);
    }
  };
  const failedAnalysis = (error: unknown): null => {
    logger.error({ err: error }, 'a request cannot be analysed');
    return null;
  };
  return {
    user,
    identity: (request) => userOf(request, null),
    analyze: (request, body, isSubmission): Analysis | Promise<Analysis> => {
      const queryProperties = properties(request, body, isSubmission);
      const requestUser = user(request);
      if (!(requestUser instanceof Promise) && !(queryProperties instanceof Promise))
        return { user: requestUser, queryProperties };
      return Promise.all([requestUser, queryProperties]).then(([one, other]) => ({
        user: one,
        queryProperties: other,
      }));
    },
  };
}
