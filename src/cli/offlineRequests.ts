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

/** Users as the defaults of requestAnalyzerConfig find them. */
const userSettings = {
  tokenUserField: 'email',
  oauthTokenInfoUrl: null,
  jwksUrl: null,
  issuer: null,
  audience: null,
  trustedUserSources: ['header', 'basic', 'bearer', 'cookie'],
} as const;

/**
 * Reads rules that map the names of users.
 * @param settings as `userMapping`; names of all sources are mapped where it does not list any
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

/** How descriptions are read. */
export interface OfflineReading {
  readonly statementPaths?: readonly string[];
  /** Left out or null: names of users stay as they are. */
  readonly mapping?: MappedUsers | null;
}

/** Makes what turns a description of a request into what rules see of it, without asking anybody outside. */
export function offlineRequests(
  names: ProductNames,
  analyzeRequest: boolean,
  { statementPaths = [STATEMENT_PATH], mapping = null }: OfflineReading = {},
): (description: DescribedRequest) => RuleRequest {
  const reader = {
    names,
    statementPaths,
    analyzeRequest,
    analyze: requestAnalysis({ names, maxBodySize: () => 1_000_000, clientsUseV2Format: false, cacheBytes: 0 }),
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
