import { Paper } from '@mantine/core';
import {
  type ComponentProps,
  createContext,
  type ReactNode,
  useContext,
  useLayoutEffect,
  useRef,
  useState,
} from 'react';

/** Above this number, only visible parts are rendered. */
const FEW_PARTS = 100;
/** Parts within this distance of the viewport are rendered in advance. */
const MARGIN = '100% 0%';
/** Estimated heights of an unrendered part and of a line in it, in pixels. */
const USUAL_HEIGHT = 88;
const USUAL_LINE = 32;

const IsLong = createContext(false);

interface SeenListProps extends ComponentProps<'ul'> {
  readonly parts: number;
}

/** A list that renders its {@link SeenPaper}s when they are first visible, if there are many. */
export function SeenList({ parts, ...list }: SeenListProps) {
  return (
    <IsLong value={parts > FEW_PARTS}>
      <ul {...list} />
    </IsLong>
  );
}

interface SeenPaperProps {
  readonly lines: number;
  readonly children: ReactNode;
}

/** A framed part of a {@link SeenList}. It stays rendered after it was visible. */
export function SeenPaper({ lines, children }: SeenPaperProps) {
  const [isSeen, setSeen] = useState(!useContext(IsLong));
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = place.current;
    if (element === null || isSeen) return;
    return whenSeen(element, () => setSeen(true));
  }, [isSeen]);
  if (!isSeen) return <div ref={place} style={{ height: USUAL_HEIGHT + lines * USUAL_LINE }} />;
  return (
    <Paper withBorder p="xs">
      {children}
    </Paper>
  );
}

const waiting = new Map<Element, () => void>();
let observer: IntersectionObserver | null = null;

/** Calls back when an element is near the viewport; returns a function that stops this. */
function whenSeen(element: Element, onSeen: () => void): () => void {
  // One observer for all elements.
  observer ??= new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) if (isIntersecting) waiting.get(target)?.();
    },
    { rootMargin: MARGIN },
  );
  waiting.set(element, onSeen);
  observer.observe(element);
  return () => {
    waiting.delete(element);
    observer?.unobserve(element);
  };
}
