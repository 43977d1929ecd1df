import { createHash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Membership, SourceGroups } from '../../model/membership.ts';
import { headerValues } from '../../model/rawHeaders.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import { MAX_QUERY_GROUPS } from '../../store/queryGroups.ts';
import type { BodyStart } from '../bodies/requestBodies.ts';

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

const MAX_DIGEST_LENGTH = 200;

export function membershipOf(sources: readonly SourceGroups[]): Membership {
  const groups = [...new Set(sources.flatMap((source) => source.groups))].sort();
  const text = JSON.stringify(groups);
  const digest = text.length > MAX_DIGEST_LENGTH ? createHash('sha256').update(text).digest('base64') : text;
  return { groups, sources, digest };
}

/** Groups of a user to store with a query; absent if empty. */
export function queryGroups({ membership }: RequestUser): { readonly groups?: readonly string[] } {
  const groups = membership?.groups ?? [];
  if (groups.length === 0) return {};
  // The list itself if it is short: followed queries reference it.
  return { groups: groups.length > MAX_QUERY_GROUPS ? groups.slice(0, MAX_QUERY_GROUPS) : groups };
}

const killQuery = /kill_query/i;
const execute = /\bexecute\b/i;
/** The name in a prepared statement's header: URL-encoded, or compressed and only readable by the analysis. */
const inHeader = /kill(?:_|%5f)query|zstd/i;

/**
 * True if a submission may call `kill_query`, so that it must be analyzed even if no rule needs that: its text contains
 * the word, or it executes such a prepared statement of the request. Others cost one search of their text.
 * @param text the body
 * @param preparedKey `ProductNames.headerKey('Prepared-Statement')`
 */
export function mayKillQuery(text: string, request: IncomingMessage, preparedKey: string): boolean {
  if (killQuery.test(text)) return true;
  if (!execute.test(text)) return false;
  return headerValues(request.rawHeaders, preparedKey).some((value) => inHeader.test(value));
}
