import { type QueryClient, useQueryClient } from '@tanstack/react-query';
import { useCallback } from 'react';
import { type ApiResponse, callWhole } from '../../client/call.ts';
import { useReported } from '../../client/changes.ts';
import { NO_PRIORITY, objectPath, RULES } from '../../client/resources.ts';
import type { RuleInput, RuleState } from '../../client/types.ts';
import { confirm } from '../../components/confirm.tsx';
import { notifyFailed, notifyUndoable, notifyWritten } from '../../components/notify.tsx';

export type Way = 'actions' | 'group' | 'cluster' | 'deny';

/** Values of the form, for all kinds of effects, so that switching between them loses nothing. */
export interface Fields extends Pick<RuleState, 'description' | 'condition' | 'actions' | 'stop' | 'suspended'> {
  readonly priority: number | string;
  readonly way: Way;
  readonly target: string;
  readonly message: string;
  readonly denyOnError: 'deny' | 'skip' | undefined;
  readonly onUnavailable: 'fallback' | 'reject';
}

export const newFields: Fields = {
  ...{ description: '', priority: '', condition: '', way: 'group', actions: [''], target: '', message: '' },
  ...{ denyOnError: undefined, onUnavailable: 'fallback', stop: false, suspended: false },
};

export function toFields(rule: RuleState): Fields {
  const { description, priority, condition, actions, routeTo, deny, onUnavailable, stop, suspended } = rule;
  const target = routeTo?.cluster === undefined ? 'group' : 'cluster';
  return {
    ...{ description, condition, onUnavailable, stop, suspended },
    priority: priority === NO_PRIORITY ? '' : priority,
    way: deny !== null ? 'deny' : routeTo === null ? 'actions' : target,
    actions: actions.length === 0 ? [''] : actions,
    target: routeTo?.cluster ?? routeTo?.routingGroup ?? '',
    message: deny?.message ?? '',
    denyOnError: deny?.onError,
  };
}

export function toRule(name: string, fields: Fields): RuleInput {
  const { description, priority, condition, way, actions, target, message, denyOnError } = fields;
  const { onUnavailable, stop, suspended } = fields;
  const routes = way === 'group' ? { routingGroup: target.trim() } : { cluster: target.trim() };
  return {
    ...{ name, description, condition, onUnavailable, stop, suspended },
    priority: typeof priority === 'number' ? priority : null,
    actions: way === 'actions' ? actions : [],
    routeTo: way === 'group' || way === 'cluster' ? routes : null,
    deny: way === 'deny' ? { message, ...(denyOnError === undefined ? {} : { onError: denyOnError }) } : null,
  };
}

/**
 * Reports a changed rule, with an undo for some seconds unless another user changes it meanwhile.
 * @param before state before the change; an invalid rule cannot be written again
 */
export function notifyChanged(client: QueryClient, before: RuleState, response: ApiResponse<RuleState>): void {
  const { suspended, version } = response.data;
  const isSwitched = before.suspended !== suspended;
  const what = isSwitched ? (suspended ? 'suspended' : 'no longer suspended') : 'changed';
  const { name, ...body } = toRule(before.name, toFields(before));
  const undo = undoing(client, before, `The rule ${name} was not changed back`, async () => {
    const path = objectPath('/api/rules', name);
    const changed = await callWhole(path, { method: 'PUT', body: { ...body, version } });
    notifyWritten(`The rule ${name} is as it was before.`, changed);
  });
  notifyUndoable(`The rule ${name} is ${what}.`, response, undo);
}

/** Writes a rule again; null if it was invalid. */
function undoing(client: QueryClient, rule: RuleState, failed: string, write: () => Promise<void>) {
  if (rule.problems.length > 0) return null;
  return () =>
    void write()
      .catch((error: unknown) => notifyFailed(failed, error))
      .then(() => client.invalidateQueries({ queryKey: RULES }));
}

/** Asks, then deletes a rule; it can be added again for some seconds, unless another rule has its name. */
export function useDeleteRule(): (rule: RuleState) => void {
  const client = useQueryClient();
  const { mutate } = useReported({
    write: ({ name, version }: RuleState) =>
      callWhole(`${objectPath('/api/rules', name)}?version=${encodeURIComponent(version)}`, { method: 'DELETE' }),
    keys: [RULES],
    report: (response, rule) => {
      const { name, resource } = rule;
      const undo = undoing(client, rule, `The rule ${name} was not added again`, async () => {
        const body = toRule(name, toFields(rule));
        const added = await callWhole<RuleState>('/api/rules', { method: 'POST', body });
        const now = added.data.resource;
        const place = now === resource ? '' : `, as RoutingRule ${now}, not in the place where it was`;
        notifyWritten(`The rule ${name} is there again${place}.`, added);
      });
      notifyUndoable(`The rule ${name} is deleted.`, response, undo);
    },
    failed: ({ name }) => `The rule ${name} could not be deleted`,
  });
  return useCallback(
    (rule: RuleState) => {
      const { name, position, place, managers } = rule;
      const effect = position === null ? 'It is not asked at present.' : 'Requests are decided without it at once.';
      const returns =
        managers.length === 0 ? '' : ' Where a GitOps controller declares it, that controller will create it again.';
      const text = `It is taken out of ${place}. ${effect}${returns}`;
      const question = { title: `Delete ${name}?`, text, action: 'Delete', dangerous: true };
      void confirm(question).then((isMeant) => {
        if (isMeant) mutate(rule);
      });
    },
    [mutate],
  );
}
