import { useCallback, useEffect, useRef } from 'react';
import { useSearchParams } from 'react-router';

/** Sets a value: `push` adds a history entry, `replace` (while the user types) does not. */
export type SetAddressState = (value: string, how?: 'push' | 'replace') => void;

/**
 * A value in a parameter of the page's address, so that it survives reloads and can be shared.
 * @param name of the parameter
 * @param initial value without the parameter
 */
export function useAddressState(name: string, initial = ''): readonly [value: string, set: SetAddressState] {
  const [parameters, setParameters] = useSearchParams();
  const latest = useRef(setParameters);
  useEffect(() => {
    latest.current = setParameters;
  });
  // A stable function, which avoids rendering again.
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

export interface OpenInAddress<Kind extends string> {
  readonly kind: Kind;
  /** Key of the object; empty if there is only one, such as a new one. */
  readonly key: string;
}

/**
 * The open object of a page, stored in its address: it survives reloads and can be shared. Back closes it, and closing
 * it leaves no separate history entry.
 * @param kinds mutually exclusive parameters that open an object; a stable array
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

export interface SortedBy {
  readonly id: string;
  readonly desc: boolean;
}

/** Parses a sorting parameter: `name`, or `-name` for descending order. */
export function sortingOf(text: string): SortedBy[] {
  const id = text.replace(/^-/, '');
  return id === '' ? [] : [{ id, desc: text !== id }];
}

/** Returns the sorting parameter; empty without sorting. */
export function sortingText([first]: readonly SortedBy[]): string {
  if (first === undefined) return '';
  return first.desc ? `-${first.id}` : first.id;
}
