import { useQuery } from '@tanstack/react-query';
import type { DEFAULT_PRIORITY } from '../../kinds/routingRule/spec.ts';
import { call } from './call.ts';
import { LIVE_MS } from './queryClient.ts';
import type { RuleInventory, RuleState } from './types.ts';

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

/** All rules, kept up to date. */
export function useRules() {
  return useQuery({
    queryKey: RULES,
    queryFn: ({ signal }) => call<RuleInventory>('/api/rules', { method: 'GET', signal }),
    refetchInterval: LIVE_MS,
  });
}
