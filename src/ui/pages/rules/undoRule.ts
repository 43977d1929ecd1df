import type { QueryClient } from '@tanstack/react-query';
import { type ApiResponse, callWhole } from '../../client/call.ts';
import { RULES } from '../../client/rules.ts';
import type { RuleState } from '../../client/types.ts';
import { notifyFailed, notifyWritten } from '../../components/notify.ts';
import { notifyUndoable } from '../../components/undo.tsx';
import { toRuleInput } from './ruleFields.ts';

/**
 * Reports a changed rule, with an undo for some seconds unless another user changes it meanwhile.
 * @param before state before the change; an invalid rule cannot be written again
 */
export function notifyChanged(client: QueryClient, before: RuleState, answer: ApiResponse<RuleState>): void {
  const { name } = before;
  const after = answer.data;
  const isSwitched = before.suspended !== after.suspended;
  const what = isSwitched ? (after.suspended ? 'suspended' : 'no longer suspended') : 'changed';
  const undo = before.problems.length > 0 ? null : () => void changeBack(client, before, after.version);
  notifyUndoable(`The rule ${name} is ${what}.`, answer, undo);
}

/** @param version of the rule after the change */
async function changeBack(client: QueryClient, before: RuleState, version: string): Promise<void> {
  const { name, ...said } = toRuleInput(before);
  const body = { ...said, version };
  try {
    const answer = await callWhole(`/api/rules/${encodeURIComponent(name)}`, { method: 'PUT', body });
    notifyWritten(`The rule ${name} is as it was before.`, answer);
  } catch (error) {
    notifyFailed(`The rule ${name} was not changed back`, error);
  }
  await client.invalidateQueries({ queryKey: RULES });
}

/** Reports a deleted rule; it can be added again for some seconds, unless another rule has its name. */
export function notifyDeleted(client: QueryClient, rule: RuleState, answer: ApiResponse<unknown>): void {
  const undo = rule.problems.length > 0 ? null : () => void addAgain(client, rule);
  notifyUndoable(`The rule ${rule.name} is deleted.`, answer, undo);
}

async function addAgain(client: QueryClient, rule: RuleState): Promise<void> {
  const { name, resource } = rule;
  try {
    const answer = await callWhole<RuleState>('/api/rules', { method: 'POST', body: toRuleInput(rule) });
    const { resource: now } = answer.data;
    const place = now === resource ? '' : `, as RoutingRule ${now}, not in the place where it was`;
    notifyWritten(`The rule ${name} is there again${place}.`, answer);
  } catch (error) {
    notifyFailed(`The rule ${name} was not added again`, error);
  }
  await client.invalidateQueries({ queryKey: RULES });
}
