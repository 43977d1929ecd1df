import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { createContext, useContext, useEffect, useState } from 'react';
import { ApiError } from '../client/apiError.ts';
import { call, onSessionEnded } from '../client/call.ts';
import { USER } from '../client/queryClient.ts';
import type { LoginMethod, LoginMethods, Role, UiConfiguration, UsablePages, UserInfo } from '../client/types.ts';

/** Who uses the pages, and what they are shown. */
export interface Session {
  readonly user: UserInfo;
  /** Ways of logging in; none where nobody does. */
  readonly loginMethods: readonly LoginMethod[];
  readonly disabledPages: readonly string[];
  /** Pages that the user has the role for; null: not known, so that each page says so itself. */
  readonly usablePages: readonly string[] | null;
}

/** Whether the user is shown a page, by its name in `pages.ts`. */
export function useSees(page: string): boolean {
  return isShown(page, useSession());
}

/**
 * Whether a user is shown a page: it is not switched off, is among the permissions where there are any, and the user
 * may make its calls (docs/authentication.md#roles).
 */
export function isShown(page: string, { user: { permissions }, disabledPages, usablePages }: Session): boolean {
  if (disabledPages.includes(page) || (permissions.length > 0 && !permissions.includes(page))) return false;
  return usablePages === null || usablePages.includes(page);
}

/** How far finding that out has come. */
export type SessionState =
  | { readonly kind: 'loading' }
  | { readonly kind: 'failed'; readonly error: Error; readonly retry: () => void }
  | { readonly kind: 'anonymous'; readonly loginMethods: readonly LoginMethod[]; readonly expired: boolean }
  | { readonly kind: 'known'; readonly session: Session };

/** Between two looks at the caller, and between two attempts while there is no answer at all; milliseconds. */
const USER_MS = 30_000;
const RETRY_MS = 3_000;

const SessionContext = createContext<Session | null>(null);
export const SessionProvider = SessionContext.Provider;

/** The session; only below a {@link SessionProvider}, where there is one. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error('useSession outside of a session');
  return session;
}

/** Whether the user holds a role. */
export function useRole(role: Role): boolean {
  return useSession().user.roles.includes(role);
}

/** Between two looks at what the gateway's configuration says of pages, in milliseconds. */
const CONFIGURATION_MS = 120_000;

/** Asks the gateway who calls, and notices when the session ends. */
export function useSessionState(): SessionState {
  const client = useQueryClient();
  const logins = useQuery({
    queryKey: ['session', 'logins'],
    queryFn: ({ signal }) => call<LoginMethods>('/api/logins', { method: 'GET', signal }),
    // Nothing is shown without an answer: what was lost for a moment only comes by itself.
    refetchInterval: ({ state: { data } }) => (data === undefined ? RETRY_MS : false),
    staleTime: 60_000,
  });
  const user = useQuery({
    queryKey: USER,
    queryFn: ({ signal }) => userInfo(signal),
    // Roles that are taken away, or a session ended elsewhere, show without reload.
    refetchInterval: ({ state: { data } }) => (data === undefined ? RETRY_MS : USER_MS),
    staleTime: 10_000,
  });
  const configuration = useQuery({
    queryKey: ['session', 'configuration', user.data?.userId],
    queryFn: ({ signal }) => uiConfiguration(signal),
    enabled: user.data != null,
    refetchInterval: CONFIGURATION_MS,
    staleTime: 10_000,
  });
  const usable = useQuery({
    // Other roles, other pages: read again as soon as they are known.
    queryKey: ['session', 'pages', user.data?.userId, user.data?.roles],
    queryFn: ({ signal }) => usablePages(signal),
    enabled: user.data != null,
    refetchInterval: CONFIGURATION_MS,
    staleTime: 10_000,
    placeholderData: keepPreviousData,
  });
  useEffect(
    () =>
      onSessionEnded(() => {
        const before = client.getQueryData<UserInfo | null>(USER);
        if (before != null) sessionStorage.setItem(EXPIRED, 'yes');
        client.setQueryData(USER, null);
      }),
    [client],
  );

  const isAnswered = logins.data !== undefined && user.data !== undefined;
  const error = isAnswered ? null : (logins.error ?? user.error);
  // It stays while they are asked for once more.
  const [failure, setFailure] = useState<Error | null>(null);
  if (failure !== error && (isAnswered || error !== null)) setFailure(error);
  if (logins.data === undefined || user.data === undefined) {
    if (failure === null) return { kind: 'loading' };
    const retry = () => void client.invalidateQueries({ queryKey: ['session'] });
    return { kind: 'failed', error: failure, retry };
  }
  if (user.data === null) {
    return { kind: 'anonymous', loginMethods: logins.data.methods, expired: sessionStorage.getItem(EXPIRED) !== null };
  }
  if ([configuration, usable].some(({ data, error: failure }) => data === undefined && failure === null))
    return { kind: 'loading' };
  const disabledPages = configuration.data?.disablePages ?? [];
  const session = {
    user: user.data,
    loginMethods: logins.data.methods,
    disabledPages,
    usablePages: usable.data?.pages ?? null,
  };
  return { kind: 'known', session };
}

/** Mark in the session storage that a session ended without a logout, so that the login page says why it is shown. */
const EXPIRED = 'session-expired';

/** Notifies the pages of a login or logout: everything that was read as another user is dropped. */
export function useSessionChange(): () => Promise<void> {
  const client = useQueryClient();
  return async () => {
    sessionStorage.removeItem(EXPIRED);
    await client.cancelQueries();
    client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'session' });
    await client.resetQueries({ queryKey: ['session'] });
  };
}

/** The caller; null when no user is logged in. Recognised without a role that `/userinfo` asks for: a user without any. */
async function userInfo(signal: AbortSignal): Promise<UserInfo | null> {
  try {
    return await call<UserInfo>('/userinfo', { signal });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) return null;
    if (error.status !== 403) throw error;
    const name = /^"([^"]*)"/.exec(error.message)?.[1] ?? 'unknown';
    return { roles: [], permissions: [], userId: name, userName: name };
  }
}

/** Which pages are switched off; nothing is, as far as users who may not ask are concerned. */
async function uiConfiguration(signal: AbortSignal): Promise<UiConfiguration> {
  try {
    return await call<UiConfiguration>('/webapp/getUIConfiguration', { method: 'GET', signal });
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return {};
    throw error;
  }
}

/** Which pages the user has the role for; null for users without any. */
async function usablePages(signal: AbortSignal): Promise<{ readonly pages: readonly string[] | null }> {
  try {
    return await call<UsablePages>('/api/pages', { method: 'GET', signal });
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return { pages: null };
    throw error;
  }
}
