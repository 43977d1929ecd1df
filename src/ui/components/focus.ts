import { type FocusEvent, type RefObject, useEffect, useLayoutEffect, useRef, useState } from 'react';

const MAIN = 'main';
/** Polling interval and maximum wait for a closing dialog or a disabled control, in milliseconds. */
const POLL_MS = 30;
const PATIENCE_MS = 2_000;

/** The focused element, and the table that contains it: its row may be removed. */
type FocusedPlace = readonly (Element | null)[];

export function focusedPlace(): FocusedPlace {
  const focused = document.activeElement;
  return [focused, focused?.closest('table') ?? null];
}

/** Finds the replacement of a removed control by its name, after a table recreated its cells. */
function sameControl(control: Element, within: Element | null): HTMLElement | null {
  const label = control.getAttribute('aria-label');
  if (label === null || within === null) return null;
  return within.querySelector<HTMLElement>(`[aria-label="${CSS.escape(label)}"]:enabled`);
}

/**
 * Returns the focus after a dialog closed, unless it already moved: to the first element that still exists and is
 * enabled, else to the page (WCAG 2.4.3). Waits for a disabled control, such as a switch with a pending change.
 */
export function returnFocusTo(place: FocusedPlace): void {
  const [focused = null, table = null] = place;
  const begun = performance.now();
  const timer = setInterval(() => {
    const { activeElement } = document;
    const isLate = performance.now() - begun > PATIENCE_MS;
    if (activeElement !== null && activeElement !== document.body) {
      if (isLate || activeElement.closest('[role="dialog"]') === null) clearInterval(timer);
      return;
    }
    if (!isLate && focused?.isConnected === true && focused.matches(':disabled')) return;
    clearInterval(timer);
    const same = focused === null || canFocus(focused) ? focused : sameControl(focused, table);
    const target = [same, table].find(canFocus) ?? document.getElementById(MAIN);
    if (target instanceof HTMLElement) target.focus({ preventScroll: true });
  }, POLL_MS);
}

function canFocus(each: Element | null): boolean {
  return each?.isConnected === true && each !== document.body && !each.matches(':disabled');
}

/**
 * Returns the focus to its previous place after a dialog, which is removed as it closes, is closed. For the component
 * that shows the dialog as long as it exists.
 */
export function useReturnFocus(): void {
  const [before] = useState(focusedPlace);
  useEffect(() => () => returnFocusTo(before), [before]);
}

/** Properties of an element for {@link useStableFocus}. */
interface StableFocus<E extends HTMLElement> {
  readonly ref: RefObject<E | null>;
  readonly tabIndex: -1;
  readonly onFocus: (event: FocusEvent<E>) => void;
  readonly onBlur: (event: FocusEvent<E>) => void;
}

/**
 * Keeps the focus in an element when its focused control is removed (the row that it deleted) or disabled. The element
 * itself receives the focus, so that keyboard users continue there (WCAG 2.4.3).
 */
export function useStableFocus<E extends HTMLElement>(): StableFocus<E> {
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
