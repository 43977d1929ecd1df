import { useQuery } from '@tanstack/react-query';
import type { DEFAULT_PRIORITY } from '../../kinds/routingRule/spec.ts';
import { call } from './call.ts';
import { useLive } from './live.ts';
import type { RuleHitList, RuleInventory, RuleState } from './types.ts';

/** What a rule says, as it is sent; a priority that is null is none. */
export interface RuleText
  extends Pick<
    RuleState,
    'name' | 'description' | 'condition' | 'actions' | 'routeTo' | 'deny' | 'onUnavailable' | 'stop' | 'suspended'
  > {
  readonly priority: number | null;
}

/** Priority of a rule that has none. */
export const NO_PRIORITY: typeof DEFAULT_PRIORITY = 2_147_483_647;

/** Key of the rules among the queries. */
export const RULES = ['rules'];

/** Between two looks at what rules decided: the gateway counts twice a minute at most. */
const HITS_MS = 60_000;

/** How many queries each rule decided, on all replicas. */
export function useRuleHits() {
  return useQuery({
    queryKey: ['ruleHits'],
    queryFn: ({ signal }) => call<RuleHitList>('/api/ruleHits', { method: 'GET', signal }),
    refetchInterval: HITS_MS,
  });
}

/** All rules, kept up to date. @param isAsked whether they are read at all */
export function useRules(isAsked = true) {
  return useQuery({
    enabled: isAsked,
    queryKey: RULES,
    queryFn: ({ signal }) => call<RuleInventory>('/api/rules', { method: 'GET', signal }),
    refetchInterval: useLive('rules', RULES),
  });
}
