import { useEffect, useRef } from 'react';
import { useBlocker } from 'react-router';
import { confirm } from './confirm.tsx';

const question = {
  title: 'Discard the edits?',
  text: 'What was changed here is not saved.',
  action: 'Discard',
  dangerous: true,
};

/** True if a form has its initial values; a field without a value may be null or missing. */
export function isSame<Values extends object>(values: Values, before: Values): boolean {
  const names = Object.keys({ ...before, ...values }) as (keyof Values)[];
  return names.every((name) => (values[name] ?? null) === (before[name] ?? null));
}

interface FormClosing {
  /** The user wants to leave: asks first if there are edits. */
  readonly leave: () => void;
  readonly close: () => void;
}

/**
 * Asks before edits of a form are lost that the address does not contain: when it is closed, and as `useLeaveGuard`
 * does.
 * @param isDirty true if there are edits
 */
export function useFormGuard(isDirty: boolean, onClose: () => void): FormClosing {
  const allowLeaving = useLeaveGuard(isDirty);
  const isAsking = useRef(false);
  const close = () => {
    allowLeaving();
    onClose();
  };
  const leave = () => {
    if (!isDirty) return close();
    if (isAsking.current) return;
    isAsking.current = true;
    void confirm(question).then((isMeant) => {
      isAsking.current = false;
      if (isMeant) close();
    });
  };
  return { leave, close };
}

/**
 * Asks before edits are lost: when the address changes (a link, Back, the search, a dialog that closes), and by the
 * browser when the page is left.
 * @param isDirty true if there are edits
 * @returns a function that lets the next change of the address pass, for saved edits
 */
function useLeaveGuard(isDirty: boolean): () => void {
  const mayLeave = useRef(false);
  const isAsking = useRef(false);
  const blocker = useBlocker(() => isDirty && !mayLeave.current);
  const latest = useRef(blocker);
  useEffect(() => {
    latest.current = blocker;
  });
  useEffect(() => {
    if (blocker.state !== 'blocked') return;
    if (isAsking.current) return;
    isAsking.current = true;
    void confirm(question).then((isMeant) => {
      isAsking.current = false;
      const { state, proceed, reset } = latest.current;
      if (state === 'blocked') (isMeant ? proceed : reset)();
    });
  }, [blocker]);
  useEffect(() => {
    if (!isDirty) return;
    const warn = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener('beforeunload', warn);
    return () => window.removeEventListener('beforeunload', warn);
  }, [isDirty]);
  return () => {
    mayLeave.current = true;
  };
}
