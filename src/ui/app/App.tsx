import { MantineProvider } from '@mantine/core';
import { ModalsProvider } from '@mantine/modals';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { Component, type ErrorInfo, lazy, type ReactNode, Suspense, useEffect, useMemo, useRef, useState } from 'react';
import { createBrowserRouter, Navigate, Route, RouterProvider, Routes } from 'react-router';
import { createQueryClient } from '../client/call.ts';
import { HealthByStream, HealthPolling, useHealth } from '../client/live.ts';
import { To } from '../components/elements.tsx';
import { EmptyState, ErrorState, Loading, PageFrame } from '../components/frame.tsx';
import { TimeZoneProvider } from '../components/time.tsx';
import { LoginPage } from '../pages/login/LoginPage.tsx';
import { isShown, SessionProvider, type SessionState, type UserSession, useSessionState } from '../session/session.ts';
import { basePath } from './gateway.ts';
import { type DetailPage, pages } from './pages.ts';
import { Outside, Shell } from './Shell.tsx';
import { theme } from './theme.ts';

/** Shows a defect of a page in its place; the rest stays usable. A page with missing code is reloaded. */
class ErrorBoundary extends Component<{ readonly children: ReactNode }, { readonly error: Error | null }> {
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

/** Leaving a page can be asked about (useFormGuard) with a router of this kind only. */
const router = createBrowserRouter(
  [
    {
      path: '*',
      element: (
        <ErrorBoundary>
          <Gate />
        </ErrorBoundary>
      ),
    },
  ],
  { basename: basePath },
);

export function App() {
  const [client] = useState(createQueryClient);
  return (
    <MantineProvider theme={theme} defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={client}>
        <TimeZoneProvider>
          <ModalsProvider>
            <Notifications position="bottom-right" />
            <RouterProvider router={router} />
          </ModalsProvider>
        </TimeZoneProvider>
      </QueryClientProvider>
    </MantineProvider>
  );
}

/** The pages for a known user; the login page for all others, at the same address. */
function Gate() {
  const state = useSessionState();
  return (
    <>
      {state.kind === 'known' ? <HealthByStream /> : <HealthPolling />}
      <Gated state={state} />
    </>
  );
}

function Gated({ state }: { readonly state: SessionState }) {
  switch (state.kind) {
    case 'loading':
      return (
        <Outside hasTitle={false}>
          <Loading label="Loading" />
        </Outside>
      );
    case 'failed':
      return (
        <Outside>
          <ErrorState error={state.error} onRetry={state.retry} />
        </Outside>
      );
    case 'anonymous':
      return (
        <Outside>
          <LoginPage methods={state.loginMethods} expired={state.expired} />
        </Outside>
      );
    case 'known':
      return (
        <SessionProvider value={state.session}>
          <Pages session={state.session} />
        </SessionProvider>
      );
  }
}

const routesOf = (page: (typeof pages)[number]): readonly DetailPage[] => [page, ...(page.details ?? [])];
const components = new Map(pages.flatMap(routesOf).map(({ path, load }) => [path, lazy(load)]));

function Pages({ session }: { readonly session: UserSession }) {
  const visible = useMemo(() => pages.filter(({ id }) => isShown(id, session)), [session]);
  const [first] = visible;
  const landing = visible.some(({ path }) => path === '');
  return (
    <Shell pages={visible}>
      <Routes>
        {visible.flatMap(routesOf).map((page) => (
          <Route key={page.path} path={page.path} element={<LazyPage page={page} />} />
        ))}
        {!landing && first !== undefined && <Route path="" element={<Navigate to={first.path} replace />} />}
        <Route path="login" element={<Navigate to="/" replace />} />
        <Route path="*" element={<NoPage />} />
      </Routes>
    </Shell>
  );
}

function LazyPage({ page }: { readonly page: DetailPage }) {
  const Component = components.get(page.path);
  if (Component === undefined) throw new Error(`page ${page.title} has no component`);
  return (
    <ErrorBoundary key={page.path}>
      <Suspense fallback={<Loading label={`Loading ${page.title}`} />}>
        <Component />
      </Suspense>
    </ErrorBoundary>
  );
}

function NoPage() {
  return (
    <PageFrame title="No such page">
      <EmptyState title="There is no such page, or it is not shown to you.">
        <To address="/">To the first page</To>
      </EmptyState>
    </PageFrame>
  );
}
