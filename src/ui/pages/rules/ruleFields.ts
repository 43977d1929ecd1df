import { NO_PRIORITY, type RuleInput } from '../../client/rules.ts';
import type { RuleState } from '../../client/types.ts';

export type Way = 'actions' | 'group' | 'cluster' | 'deny';

/** Values of the form, for all kinds of effects, so that switching between them loses nothing. */
export interface Fields {
  readonly description: string;
  readonly priority: number | string;
  readonly condition: string;
  readonly way: Way;
  readonly actions: readonly string[];
  readonly target: string;
  readonly message: string;
  readonly denyOnError: 'deny' | 'skip' | undefined;
  readonly onUnavailable: 'fallback' | 'reject';
  readonly stop: boolean;
  readonly suspended: boolean;
}

export const newFields: Fields = {
  description: '',
  priority: '',
  condition: '',
  way: 'group',
  actions: [''],
  target: '',
  message: '',
  denyOnError: undefined,
  onUnavailable: 'fallback',
  stop: false,
  suspended: false,
};

export function toFields(rule: RuleState): Fields {
  const { description, priority, condition, actions, routeTo, deny, onUnavailable, stop, suspended } = rule;
  const way =
    deny !== null ? 'deny' : routeTo === null ? 'actions' : routeTo.cluster === undefined ? 'group' : 'cluster';
  return {
    description,
    priority: priority === NO_PRIORITY ? '' : priority,
    condition,
    way,
    actions: actions.length === 0 ? [''] : actions,
    target: routeTo?.cluster ?? routeTo?.routingGroup ?? '',
    message: deny?.message ?? '',
    denyOnError: deny?.onError,
    onUnavailable,
    stop,
    suspended,
  };
}

export function toRule(name: string, fields: Fields): RuleInput {
  const { description, priority, condition, way, actions, target, message, denyOnError } = fields;
  const { onUnavailable, stop, suspended } = fields;
  const routes = way === 'group' ? { routingGroup: target.trim() } : { cluster: target.trim() };
  return {
    name,
    description,
    priority: typeof priority === 'number' ? priority : null,
    condition,
    actions: way === 'actions' ? actions : [],
    routeTo: way === 'group' || way === 'cluster' ? routes : null,
    deny: way === 'deny' ? { message, ...(denyOnError === undefined ? {} : { onError: denyOnError }) } : null,
    onUnavailable,
    stop,
    suspended,
  };
}

export function toRuleInput(rule: RuleState): RuleInput {
  return toRule(rule.name, toFields(rule));
}
