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

/** More parts than these are put into the page only where they are seen. */
const FEW_PARTS = 100;
/** Parts so far from what is seen are made ready. */
const MARGIN = '100% 0%';
/** Heights of a part before it was seen, and of a line in it, in pixels. */
const USUAL_HEIGHT = 88;
const USUAL_LINE = 32;

const IsLong = createContext(false);

interface SeenListProps extends ComponentProps<'ul'> {
  /** Parts in it, at any depth. */
  readonly parts: number;
}

/** A list whose {@link SeenPaper}s are empty until they are seen first, where they are many. */
export function SeenList({ parts, ...list }: SeenListProps) {
  return (
    <IsLong value={parts > FEW_PARTS}>
      <ul {...list} />
    </IsLong>
  );
}

interface SeenPaperProps {
  /** About how many lines it has besides the usual ones. */
  readonly lines: number;
  readonly children: ReactNode;
}

/** A framed part of a {@link SeenList}. Once it was seen it stays in the page. */
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

/** Calls back once an element is near what the window shows; answers the function that ends that. */
function whenSeen(element: Element, onSeen: () => void): () => void {
  // One for all of them.
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
