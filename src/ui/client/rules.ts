import { useQuery } from '@tanstack/react-query';
import type { DEFAULT_PRIORITY } from '../../kinds/routingRule/spec.ts';
import { call } from './call.ts';
import { useLive } from './live.ts';
import type { RuleHitList, RuleInventory, RuleState } from './types.ts';

/** Fields of a rule in a request; priority null means no priority. */
export interface RuleInput
  extends Pick<
    RuleState,
    'name' | 'description' | 'condition' | 'actions' | 'routeTo' | 'deny' | 'onUnavailable' | 'stop' | 'suspended'
  > {
  readonly priority: number | null;
}

/** Default priority. */
export const NO_PRIORITY: typeof DEFAULT_PRIORITY = 2_147_483_647;

export const RULES = ['rules'];

/** Polling interval of rule hits: the gateway counts at most twice a minute. */
const HITS_MS = 60_000;

/** Number of queries that each rule decided, on all replicas. */
export function useRuleHits() {
  return useQuery({
    queryKey: ['ruleHits'],
    queryFn: ({ signal }) => call<RuleHitList>('/api/ruleHits', { method: 'GET', signal }),
    refetchInterval: HITS_MS,
  });
}

/** All rules, kept up to date. @param isAsked false disables the fetch */
export function useRules(isAsked = true) {
  return useQuery({
    enabled: isAsked,
    queryKey: RULES,
    queryFn: ({ signal }) => call<RuleInventory>('/api/rules', { method: 'GET', signal }),
    refetchInterval: useLive('rules', RULES),
  });
}
