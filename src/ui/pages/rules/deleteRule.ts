import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useCallback } from 'react';
import { callWhole } from '../../client/call.ts';
import { RULES } from '../../client/rules.ts';
import type { RuleState } from '../../client/types.ts';
import { confirm } from '../../components/confirm.tsx';
import { notifyFailed } from '../../components/notify.ts';
import { notifyDeleted } from './undoRule.ts';

export function useDeleteRule(): (rule: RuleState) => void {
  const client = useQueryClient();
  const { mutate } = useMutation({
    mutationFn: ({ name, version }: RuleState) =>
      callWhole(`/api/rules/${encodeURIComponent(name)}?version=${encodeURIComponent(version)}`, { method: 'DELETE' }),
    onSuccess: async (answer, rule) => {
      await client.invalidateQueries({ queryKey: RULES });
      notifyDeleted(client, rule, answer);
    },
    onError: (error, { name }) => notifyFailed(`The rule ${name} could not be deleted`, error),
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
