import { Anchor, MantineProvider } from '@mantine/core';
import { ModalsProvider } from '@mantine/modals';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { lazy, Suspense, useMemo, useState } from 'react';
import { BrowserRouter, Link, Navigate, Route, Routes } from 'react-router';
import { createQueryClient } from '../client/queryClient.ts';
import { ErrorBoundary } from '../components/ErrorBoundary.tsx';
import { PageFrame } from '../components/PageFrame.tsx';
import { EmptyState, ErrorState, Loading } from '../components/states.tsx';
import { TimeZoneProvider } from '../components/time.tsx';
import { LoginPage } from '../pages/login/LoginPage.tsx';
import { type Session, SessionProvider, useSessionState } from '../session/session.ts';
import { basePath } from './gateway.ts';
import { type Page, pages, visiblePages } from './pages.ts';
import { Shell } from './Shell.tsx';
import { theme } from './theme.ts';

/** The whole user interface. */
export function App() {
  const [client] = useState(createQueryClient);
  return (
    <MantineProvider theme={theme} defaultColorScheme="auto" withCssVariables={false} withGlobalClasses={false}>
      <QueryClientProvider client={client}>
        <TimeZoneProvider>
          <ModalsProvider>
            <Notifications position="bottom-right" />
            <BrowserRouter basename={basePath}>
              <ErrorBoundary>
                <Gate />
              </ErrorBoundary>
            </BrowserRouter>
          </ModalsProvider>
        </TimeZoneProvider>
      </QueryClientProvider>
    </MantineProvider>
  );
}

/** The pages for somebody who is known; the login page for everybody else, at the same address. */
function Gate() {
  const state = useSessionState();
  switch (state.kind) {
    case 'loading':
      return <Loading label="Loading" full />;
    case 'failed':
      return <ErrorState error={state.error} onRetry={state.retry} full />;
    case 'anonymous':
      return <LoginPage loginType={state.loginType} expired={state.expired} />;
    case 'known':
      return (
        <SessionProvider value={state.session}>
          <Pages session={state.session} />
        </SessionProvider>
      );
  }
}

const components = new Map(pages.map((page) => [page.id, lazy(page.load)]));

function Pages({ session: { user, disabledPages } }: { readonly session: Session }) {
  const visible = useMemo(
    () => visiblePages(pages, disabledPages, user.permissions),
    [disabledPages, user.permissions],
  );
  const [first] = visible;
  const landing = visible.some(({ path }) => path === '');
  return (
    <Shell pages={visible}>
      <Routes>
        {visible.map((page) => (
          <Route key={page.id} path={page.path} element={<LazyPage page={page} />} />
        ))}
        {!landing && first !== undefined && <Route path="" element={<Navigate to={first.path} replace />} />}
        <Route path="login" element={<Navigate to="/" replace />} />
        <Route path="*" element={<NoPage />} />
      </Routes>
    </Shell>
  );
}

function LazyPage({ page }: { readonly page: Page }) {
  const Component = components.get(page.id);
  if (Component === undefined) throw new Error(`page ${page.id} has no component`);
  return (
    <ErrorBoundary key={page.id}>
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
        <Anchor component={Link} to="/">
          To the first page
        </Anchor>
      </EmptyState>
    </PageFrame>
  );
}
