import { useEffect, useLayoutEffect, useRef } from 'react';
import { useLocation, useNavigationType } from 'react-router';
import { useLatest } from '../components/addressState.ts';

/** Scroll position and followed link of a page. */
interface Place {
  readonly scrolled: number;
  readonly link: string | null;
}

const MAX_PLACES = 100;
const CONTENT_MS = 2_000;

/**
 * Restores scroll position and focus after Back and Forward (WCAG 2.4.3). A page that is opened otherwise begins at its
 * start.
 * @param begin focuses the start of the page
 */
export function useReturnPlace(begin: () => void): void {
  const { key, pathname } = useLocation();
  const isReturn = useNavigationType() === 'POP';
  const places = useRef(new Map<string, Place>());
  const shownPath = useRef(pathname);
  const latestBegin = useLatest(begin);
  // Before the new page is painted: it may be shorter, which scrolls.
  useLayoutEffect(() => {
    const remembered = places.current;
    const note = (link: string | null) => {
      remembered.delete(key);
      remembered.set(key, { scrolled: window.scrollY, link });
      const [oldest] = remembered.keys();
      if (remembered.size > MAX_PLACES && oldest !== undefined) remembered.delete(oldest);
    };
    const onScroll = () => note(remembered.get(key)?.link ?? null);
    const onClick = ({ target }: MouseEvent) => {
      const link = target instanceof Element ? target.closest('main a[href]') : null;
      if (link !== null) note(link.getAttribute('href'));
    };
    window.addEventListener('scroll', onScroll, { passive: true });
    window.addEventListener('click', onClick, { capture: true });
    return () => {
      window.removeEventListener('scroll', onScroll);
      window.removeEventListener('click', onClick, { capture: true });
    };
  }, [key]);
  useEffect(() => {
    if (shownPath.current === pathname) return;
    shownPath.current = pathname;
    latestBegin.current();
    const place = isReturn ? places.current.get(key) : undefined;
    if (place === undefined) {
      window.scrollTo(0, 0);
      return;
    }
    return returnTo(place);
  }, [key, pathname, isReturn, latestBegin]);
}

/** Scrolls and focuses when the content is there; returns a function that stops this. */
function returnTo({ scrolled, link }: Place): () => void {
  const deadline = performance.now() + CONTENT_MS;
  let frame = 0;
  const attempt = () => {
    const isLongEnough = document.documentElement.scrollHeight >= scrolled + window.innerHeight;
    const target = link === null ? null : document.querySelector<HTMLElement>(`main a[href="${CSS.escape(link)}"]`);
    const isOver = performance.now() > deadline;
    if (!isOver && (!isLongEnough || (link !== null && target === null))) {
      frame = requestAnimationFrame(attempt);
      return;
    }
    window.scrollTo(0, scrolled);
    target?.focus({ preventScroll: true });
  };
  attempt();
  return () => cancelAnimationFrame(frame);
}
