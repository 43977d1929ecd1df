import { useCallback } from 'react';
import { useSearchParams } from 'react-router';

export interface RuleDialogState {
  readonly rule: string | null;
  readonly isNew: boolean;
}

export const noDialog: RuleDialogState = { rule: null, isNew: false };

/** The open dialog, stored in the page's address, so that a rule can be shared. The setter is stable. */
export function useRuleDialog(): readonly [state: RuleDialogState, set: (state: RuleDialogState) => void] {
  const [parameters, setParameters] = useSearchParams();
  const set = useCallback(
    ({ rule, isNew }: RuleDialogState) =>
      setParameters(
        (before) => {
          const next = new URLSearchParams(before);
          next.delete('rule');
          next.delete('new');
          if (rule !== null) next.set('rule', rule);
          else if (isNew) next.set('new', '');
          return next;
        },
        // Back closes the dialog.
        { replace: rule === null && !isNew },
      ),
    [setParameters],
  );
  return [{ rule: parameters.get('rule'), isNew: parameters.has('new') }, set];
}
