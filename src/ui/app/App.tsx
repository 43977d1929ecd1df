import { MantineProvider } from '@mantine/core';
import { ModalsProvider } from '@mantine/modals';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { lazy, Suspense, useMemo, useState } from 'react';
import { createBrowserRouter, Navigate, Route, RouterProvider, Routes } from 'react-router';
import { HealthByLooks, HealthByStream } from '../client/health.ts';
import { createQueryClient } from '../client/queryClient.ts';
import { ErrorBoundary } from '../components/ErrorBoundary.tsx';
import { To } from '../components/elements.tsx';
import { PageFrame } from '../components/frame.tsx';
import { EmptyState, ErrorState, Loading } from '../components/states.tsx';
import { TimeZoneProvider } from '../components/time.tsx';
import { LoginPage } from '../pages/login/LoginPage.tsx';
import { isShown, SessionProvider, type SessionState, type UserSession, useSessionState } from '../session/session.ts';
import { basePath } from './gateway.ts';
import { Outside } from './Outside.tsx';
import { type DetailPage, pages } from './pages.ts';
import { Shell } from './Shell.tsx';
import { theme } from './theme.ts';

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
      {state.kind === 'known' ? <HealthByStream /> : <HealthByLooks />}
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
