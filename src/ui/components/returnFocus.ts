import { useEffect, useState } from 'react';

/** Where the focus goes when nothing better is left. */
const MAIN = 'main';
/** How often, and for how long at most, a closing dialog and a control that is switched off are waited for, in milliseconds. */
const LOOK_MS = 30;
const PATIENCE_MS = 2_000;

/** What has the focus, and the table that it is in: its row may go away. */
export type FocusedPlace = readonly (Element | null)[];

/** Where the focus is now. */
export function focusedPlace(): FocusedPlace {
  const focused = document.activeElement;
  return [focused, focused?.closest('table') ?? null];
}

/** The control that stands for another one that is gone: that of its name, where a table made its cells again. */
export function sameControl(control: Element, within: Element | null): HTMLElement | null {
  const label = control.getAttribute('aria-label');
  if (label === null || within === null) return null;
  return within.querySelector<HTMLElement>(`[aria-label="${CSS.escape(label)}"]:enabled`);
}

/**
 * Returns the focus once a dialog is gone, unless it is somewhere already: to the first that is still there and not
 * switched off, else to the page (WCAG 2.4.3). A control that is switched off is waited for, as a switch is while its
 * change is on the way.
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
  }, LOOK_MS);
}

function canFocus(each: Element | null): boolean {
  return each?.isConnected === true && each !== document.body && !each.matches(':disabled');
}

/**
 * Returns the focus to where it was once a dialog, which is removed as it closes, is gone. For the component that shows
 * the dialog as long as it exists.
 */
export function useReturnFocus(): void {
  const [before] = useState(focusedPlace);
  useEffect(() => () => returnFocusTo(before), [before]);
}
