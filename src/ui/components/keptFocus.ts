import { type FocusEvent, type RefObject, useLayoutEffect, useRef } from 'react';
import { returnFocusTo, sameControl } from './returnFocus.ts';

/** Properties of an element for {@link useKeptFocus}. */
interface KeptFocus<E extends HTMLElement> {
  readonly ref: RefObject<E | null>;
  readonly tabIndex: -1;
  readonly onFocus: (event: FocusEvent<E>) => void;
  readonly onBlur: (event: FocusEvent<E>) => void;
}

/**
 * Keeps the focus in an element when its focused control is removed (the row that it deleted) or disabled. The element
 * itself receives the focus, so that keyboard users continue there (WCAG 2.4.3).
 */
export function useKeptFocus<E extends HTMLElement>(): KeptFocus<E> {
  const ref = useRef<E>(null);
  const focused = useRef<Element | null>(null);
  useLayoutEffect(() => {
    const control = focused.current;
    if (control === null || (control.isConnected && !control.matches(':disabled'))) return;
    focused.current = null;
    if (document.activeElement === document.body || document.activeElement === control)
      (sameControl(control, ref.current) ?? ref.current)?.focus({ preventScroll: true });
  });
  useLayoutEffect(() => {
    const element = ref.current;
    return () => {
      if (focused.current !== null) returnFocusTo([null, element]);
    };
  }, []);
  return {
    ref,
    tabIndex: -1,
    onFocus: ({ target }) => {
      focused.current = target === ref.current ? null : target;
    },
    onBlur: ({ relatedTarget }) => {
      // Without a next element the control was removed, or the window lost the focus and gets it back.
      if (relatedTarget !== null) focused.current = null;
    },
  };
}
