import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import { noUser, type RequestUser } from '../../model/requestUser.ts';
import type { AnalyzeLongRequest } from '../../sql/analyzeRequest.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import type { Analysis, RequestAnalyzer } from '../analysis/requestAnalyzer.ts';
import type { BodyStart } from '../bodies/body.ts';
import type { ClientCertificates } from './clientCertificates.ts';
import type { UserExtractor } from './userExtractor.ts';

/** What the analyzer joins. */
export interface UserAndQueryAnalyzerDependencies {
  readonly users: UserExtractor;
  /** Users of client certificates, which come first; null or absent: certificates name no users. */
  readonly certificates?: ClientCertificates | null;
  readonly analyze: AnalyzeLongRequest;
  readonly logger: Logger;
}

/** Finds user and query properties of requests. A defect is logged and means "unknown": it never fails a query. */
export function userAndQueryAnalyzer({
  users,
  certificates,
  analyze,
  logger,
}: UserAndQueryAnalyzerDependencies): RequestAnalyzer {
  const user = (request: IncomingMessage): RequestUser | Promise<RequestUser> => {
    try {
      const certificate = certificates?.of(request);
      if (certificate?.kind === 'user') return { user: certificate.user, userInfo: null };
      const result = users.user(request.rawHeaders);
      return result instanceof Promise ? result.catch((error: unknown) => failedUser(error)) : result;
    } catch (error) {
      return failedUser(error);
    }
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
