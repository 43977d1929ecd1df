import { pino } from 'pino';
import { type DescribedRequest, describedRuleRequest } from '../gateway/analysis/describedRequest.ts';
import { localUsers } from '../gateway/user/localUsers.ts';
import { systemClock } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import { STATEMENT_PATH } from '../routing/proxiedPaths.ts';
import type { RuleRequest } from '../rules/decision.ts';
import { requestAnalysis } from '../sql/analyzeRequest.ts';

/** Users as the defaults of requestAnalyzerConfig find them. */
const userSettings = {
  tokenUserField: 'email',
  oauthTokenInfoUrl: null,
  jwksUrl: null,
  issuer: null,
  audience: null,
  trustedUserSources: ['header', 'basic', 'bearer', 'cookie'],
} as const;

/** Makes what turns a description of a request into what rules see of it, without asking anybody outside. */
export function offlineRequests(
  names: ProductNames,
  analyzeRequest: boolean,
  statementPaths: readonly string[] = [STATEMENT_PATH],
): (description: DescribedRequest) => RuleRequest {
  const reader = {
    names,
    statementPaths,
    analyzeRequest,
    analyze: requestAnalysis({ names, maxBodySize: () => 1_000_000, clientsUseV2Format: false, cacheBytes: 0 }),
    userOf: localUsers(userSettings, { names, clock: systemClock, logger: pino({ level: 'silent' }) }),
  };
  return (description) => describedRuleRequest(description, reader);
}
