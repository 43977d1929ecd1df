import { pino } from 'pino';
import { type DescribedRequest, describedRuleRequest } from '../gateway/analysis/describedRequest.ts';
import { localUsers } from '../gateway/user/localUsers.ts';
import { MappedUsers, mappedSources, type NameMappingSettings, openNameRules } from '../gateway/user/mappedUsers.ts';
import { systemClock } from '../model/clock.ts';
import type { ProductNames } from '../model/names.ts';
import type { RequestUser } from '../model/requestUser.ts';
import { STATEMENT_PATH } from '../routing/proxiedPaths.ts';
import type { RuleRequest } from '../rules/decision.ts';
import { requestAnalysis } from '../sql/analyzeRequest.ts';

/** Users by the defaults of requestAnalyzerConfig. */
const userSettings = {
  tokenUserField: 'email',
  oauthTokenInfoUrl: null,
  jwksUrl: null,
  issuer: null,
  audience: null,
  trustedUserSources: ['header', 'basic', 'bearer', 'cookie'],
} as const;

/**
 * Reads rules for mapping user names.
 * @param settings as `userMapping`; by default names of all sources are mapped
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
 */
export async function offlineMapping({
  pattern,
  file,
  sources = mappedSources,
}: Pick<NameMappingSettings, 'pattern' | 'file'> & Partial<NameMappingSettings>): Promise<MappedUsers> {
  const rules = { current: await openNameRules({ pattern, file }), stop: () => undefined };
  return new MappedUsers(rules, { sources, rewriteUserHeader: false });
}

export interface OfflineReading {
  readonly statementPaths?: readonly string[];
  /** Mapping of user names; default: none. */
  readonly mapping?: MappedUsers | null;
}

/** Returns a function that converts a description of a request to a request for rules, without network access. */
export function offlineRequests(
  names: ProductNames,
  analyzeRequest: boolean,
  { statementPaths = [STATEMENT_PATH], mapping = null }: OfflineReading = {},
): (description: DescribedRequest) => RuleRequest {
  const reader = {
    names,
    statementPaths,
    analyzeRequest,
    analyze: requestAnalysis({ names, maxBodySize: 1_000_000, clientsUseV2Format: false, cacheBytes: 0 }),
    userOf: localUsers(userSettings, { names, clock: systemClock, logger: pino({ level: 'silent' }) }),
    ...(mapping === null
      ? {}
      : {
          mapped: (user: RequestUser) => mapping.of(user),
          mappedName: (name: string) => mapping.ofName(name),
        }),
  };
  return (description) => describedRuleRequest(description, reader);
}
