import { type RefObject, useCallback, useEffect, useRef } from 'react';
import { useSearchParams } from 'react-router';

/** The value of the last rendering, for stable functions. */
export function useLatest<T>(value: T): RefObject<T> {
  const latest = useRef(value);
  useEffect(() => {
    latest.current = value;
  });
  return latest;
}

/** The parameters of the page's address, and a stable function that changes them, which avoids rendering again. */
function useParameters() {
  const [parameters, setParameters] = useSearchParams();
  const latest = useLatest(setParameters);
  const change = useCallback(
    (edit: (next: URLSearchParams) => void, replace: boolean) =>
      latest.current(
        (before) => {
          const next = new URLSearchParams(before);
          edit(next);
          return next;
        },
        { replace },
      ),
    [latest],
  );
  return [parameters, change] as const;
}

/**
 * A value in a parameter of the page's address, so that it survives reloads and can be shared. It is set with a history
 * entry (`push`) or without one (`replace`, while the user types).
 * @param name of the parameter
 * @param initial value without the parameter
 */
export function useAddressState(name: string, initial = '') {
  const [parameters, change] = useParameters();
  const set = useCallback(
    (value: string, how: 'push' | 'replace' = 'replace') =>
      change((next) => (value === initial ? next.delete(name) : next.set(name, value)), how === 'replace'),
    [change, name, initial],
  );
  return [parameters.get(name) ?? initial, set] as const;
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
export function useOpenInAddress<Kind extends string>(kinds: readonly Kind[]) {
  const [parameters, change] = useParameters();
  const set = useCallback(
    (opened: OpenInAddress<Kind> | null) =>
      change((next) => {
        for (const kind of kinds) next.delete(kind);
        if (opened !== null) next.set(opened.kind, opened.key);
      }, opened === null),
    [change, kinds],
  );
  const kind = kinds.find((each) => parameters.has(each));
  const opened: OpenInAddress<Kind> | null = kind === undefined ? null : { kind, key: parameters.get(kind) ?? '' };
  return [opened, set] as const;
}
