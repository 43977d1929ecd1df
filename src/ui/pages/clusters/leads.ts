import type { RuleState } from '../../client/types.ts';

/** Where rules may lead. */
export interface Destination {
  /** Null: to any cluster of the group. */
  readonly cluster: string | null;
  readonly group: string | null;
}

/** A rule that leads somewhere, and how. */
export interface Lead {
  readonly rule: RuleState;
  readonly how: string;
}

/**
 * Rules that lead to a cluster or its group, in firing order: by what they route to, or by an action that names the group as a literal.
 * Which group an action computes is not known before a query comes.
 */
export function leadsTo(rules: readonly RuleState[], { cluster, group }: Destination): readonly Lead[] {
  return rules.flatMap((rule): Lead[] => {
    const { routeTo, actions } = rule;
    if (cluster !== null && routeTo?.cluster === cluster) return [{ rule, how: 'to this backend alone' }];
    if (group === null) return [];
    if (routeTo?.routingGroup === group) return [{ rule, how: `to the group ${group}` }];
    return actions.some((action) => names(action, group)) ? [{ rule, how: `an action names ${group}` }] : [];
  });
}

/** Whether a text of a rule has a name as a whole literal. */
function names(action: string, name: string): boolean {
  return action.includes(JSON.stringify(name)) || action.includes(`'${name}'`);
}
