import type { IncomingMessage } from 'node:http';
import type { RequestUser } from '../../model/requestUser.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import type { BodyStart } from '../bodies/body.ts';

/** Who asks, and what is asked. */
export interface Analysis {
  readonly user: RequestUser;
  /** Null where the request was not analysed. */
  readonly queryProperties: QueryProperties | null;
}

/**
 * Finds out who asks and what (docs/request-user.md, docs/sql-analysis.md). Answers directly where nothing has to
 * be waited for, so that a submission costs no turn of the event loop. Must neither throw nor reject: what cannot be
 * found out is null.
 */
export interface RequestAnalyzer {
  /** The user alone, for history and log; also with `analyzeRequest: false`. */
  user(request: IncomingMessage): RequestUser | Promise<RequestUser>;
  /**
   * User and query properties. Called where rules need them, or where the body may hold a call of kill_query.
   * @param body the whole body; null when it is longer than the buffer, or the request has none
   */
  analyze(request: IncomingMessage, body: BodyStart | null, isSubmission: boolean): Analysis | Promise<Analysis>;
}
