import type { RuleState } from '../../client/types.ts';

export interface RuleDestination {
  /** Null: any cluster of the group. */
  readonly cluster: string | null;
  readonly group: string | null;
}

export interface Lead {
  readonly rule: RuleState;
  readonly how: string;
}

/**
 * Rules that route to a cluster or its group, in firing order: by their target, or by an action that names the group as
 * a literal. Computed groups are unknown until a query arrives.
 */
export function leadsTo(rules: readonly RuleState[], { cluster, group }: RuleDestination): readonly Lead[] {
  return rules.flatMap((rule): Lead[] => {
    const { routeTo, actions } = rule;
    if (cluster !== null && routeTo?.cluster === cluster) return [{ rule, how: 'to this backend alone' }];
    if (group === null) return [];
    if (routeTo?.routingGroup === group) return [{ rule, how: `to the group ${group}` }];
    return actions.some((action) => names(action, group)) ? [{ rule, how: `an action names ${group}` }] : [];
  });
}

/** True if a text of a rule contains the name as a complete literal. */
function names(action: string, name: string): boolean {
  return action.includes(JSON.stringify(name)) || action.includes(`'${name}'`);
}
