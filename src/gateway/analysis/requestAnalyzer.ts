import type { IncomingMessage } from 'node:http';
import type { RequestUser } from '../../model/requestUser.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import type { BodyStart } from '../bodies/body.ts';

export interface Analysis {
  readonly user: RequestUser;
  /** Null without an analysis. */
  readonly queryProperties: QueryProperties | null;
}

/**
 * Extracts user and query (docs/request-user.md, docs/sql-analysis.md). Returns synchronously if possible, so that a
 * submission costs no turn of the event loop. Must neither throw nor reject: unknown values are null.
 */
export interface RequestAnalyzer {
  /** The user only, for history and log; also with `analyzeRequest: false`. */
  user(request: IncomingMessage): RequestUser | Promise<RequestUser>;
  /**
   * User and query properties. Called if rules need them, or if the body may contain a call of kill_query.
   * @param body the whole body; null if it is longer than the buffer, or missing
   */
  analyze(request: IncomingMessage, body: BodyStart | null, isSubmission: boolean): Analysis | Promise<Analysis>;
}
