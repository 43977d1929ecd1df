import { Component, type ErrorInfo, type ReactNode, useEffect, useRef } from 'react';
import { useHealth } from '../client/health.ts';
import { ErrorState } from './states.tsx';

/** Shows a defect of a page in its place; the rest stays usable. A page with missing code is reloaded. */
export class ErrorBoundary extends Component<{ readonly children: ReactNode }, { readonly error: Error | null }> {
  override state: { readonly error: Error | null } = { error: null };

  static getDerivedStateFromError(error: unknown): { readonly error: Error } {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override componentDidCatch(error: unknown, info: ErrorInfo): void {
    console.error(error, info.componentStack);
  }

  override render(): ReactNode {
    const { error } = this.state;
    if (error === null) return this.props.children;
    // A newer gateway has other files: reloading loads the new page.
    return (
      <>
        {/dynamically imported module|unable to preload/i.test(error.message) && <ReloadOnReturn />}
        <ErrorState error={error} onRetry={() => window.location.reload()} retryLabel="Reload" />
      </>
    );
  }
}

/** Reloads the page when the gateway is available again: its code could not be loaded in an outage. */
function ReloadOnReturn() {
  const { isReachable } = useHealth();
  const wasLost = useRef(false);
  useEffect(() => {
    if (!isReachable) wasLost.current = true;
    else if (wasLost.current) window.location.reload();
  }, [isReachable]);
  return null;
}
