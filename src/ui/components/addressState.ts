import { useCallback, useEffect, useRef } from 'react';
import { useSearchParams } from 'react-router';

/** Sets a value: `push` where Back leads to the one before, `replace` (while somebody types) where it does not. */
export type SetAddressState = (value: string, how?: 'push' | 'replace') => void;

/**
 * A value that stands in the page's address as a parameter, so that it survives reloads and can be sent to others.
 * @param name of the parameter
 * @param initial what it is when the address says nothing
 */
export function useAddressState(name: string, initial = ''): readonly [value: string, set: SetAddressState] {
  const [parameters, setParameters] = useSearchParams();
  const latest = useRef(setParameters);
  useEffect(() => {
    latest.current = setParameters;
  });
  // The same function each time, so that nothing is rendered again for it.
  const set: SetAddressState = useCallback(
    (value, how = 'replace') =>
      latest.current(
        (before) => {
          const next = new URLSearchParams(before);
          if (value === initial) next.delete(name);
          else next.set(name, value);
          return next;
        },
        { replace: how === 'replace' },
      ),
    [name, initial],
  );
  return [parameters.get(name) ?? initial, set];
}

/** What a page has open beside its content. */
export interface OpenInAddress<Kind extends string> {
  /** Name of the parameter. */
  readonly kind: Kind;
  /** Which one of the kind; empty where there is only one, such as a new one. */
  readonly key: string;
}

/**
 * What a page has open, which stands in its address: it survives reloads and can be sent to others, Back closes it, and closing it
 * leaves no entry of its own in the history.
 * @param kinds parameters that open something, of which one is there at a time; the same array each time
 */
export function useOpenInAddress<Kind extends string>(
  kinds: readonly Kind[],
): readonly [opened: OpenInAddress<Kind> | null, set: (opened: OpenInAddress<Kind> | null) => void] {
  const [parameters, setParameters] = useSearchParams();
  const latest = useRef(setParameters);
  useEffect(() => {
    latest.current = setParameters;
  });
  const set = useCallback(
    (opened: OpenInAddress<Kind> | null) =>
      latest.current(
        (before) => {
          const next = new URLSearchParams(before);
          for (const kind of kinds) next.delete(kind);
          if (opened !== null) next.set(opened.kind, opened.key);
          return next;
        },
        { replace: opened === null },
      ),
    [kinds],
  );
  const kind = kinds.find((each) => parameters.has(each));
  return [kind === undefined ? null : { kind, key: parameters.get(kind) ?? '' }, set];
}

/** What a table is sorted by. */
export interface SortedBy {
  readonly id: string;
  readonly desc: boolean;
}

/** Columns that a parameter names: `name`, or `-name` for descending order. */
export function sortingOf(text: string): SortedBy[] {
  const id = text.replace(/^-/, '');
  return id === '' ? [] : [{ id, desc: text !== id }];
}

/** The parameter of what a table is sorted by; empty for nothing. */
export function sortingText([first]: readonly SortedBy[]): string {
  if (first === undefined) return '';
  return first.desc ? `-${first.id}` : first.id;
}
