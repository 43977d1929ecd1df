import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query';
import { createContext, useContext, useEffect, useState } from 'react';
import { ApiError, call, onSessionEnded, USER } from '../client/call.ts';
import { getter } from '../client/resources.ts';
import type { LoginMethod, LoginMethods, UiConfiguration, UsablePages, UserInfo, UserRole } from '../client/types.ts';

/** The user of the pages, and the visible pages. */
export interface UserSession {
  readonly user: UserInfo;
  /** Login methods; empty without authentication. */
  readonly loginMethods: readonly LoginMethod[];
  readonly disabledPages: readonly string[];
  /** Pages that the user has the role for; null if unknown, so that each page shows it. */
  readonly usablePages: readonly string[] | null;
}

export function useSees(page: string): boolean {
  return isShown(page, useSession());
}

/**
 * True if a page is not disabled, is among the permissions if there are any, and the user may make its calls
 * (docs/authentication.md#roles).
 */
export function isShown(page: string, { user: { permissions }, disabledPages, usablePages }: UserSession): boolean {
  if (disabledPages.includes(page) || (permissions.length > 0 && !permissions.includes(page))) return false;
  return usablePages === null || usablePages.includes(page);
}

/** Progress of the session's detection. */
export type SessionState =
  | { readonly kind: 'loading' }
  | { readonly kind: 'failed'; readonly error: Error; readonly retry: () => void }
  | { readonly kind: 'anonymous'; readonly loginMethods: readonly LoginMethod[]; readonly expired: boolean }
  | { readonly kind: 'known'; readonly session: UserSession };

/** Polling interval of the caller, and retry delay without a response; milliseconds. */
const USER_MS = 30_000;
const RETRY_MS = 3_000;

const SessionContext = createContext<UserSession | null>(null);
export const SessionProvider = SessionContext.Provider;

/** The session; only below a {@link SessionProvider}. */
export function useSession(): UserSession {
  const session = useContext(SessionContext);
  if (session === null) throw new Error('useSession outside of a session');
  return session;
}

export function useRole(role: UserRole): boolean {
  return useSession().user.roles.includes(role);
}

/** Polling interval of the pages' configuration, in milliseconds. */
const CONFIGURATION_MS = 120_000;

/** Asks the gateway for the caller, and detects the end of the session. */
export function useSessionState(): SessionState {
  const client = useQueryClient();
  const logins = useQuery({
    queryKey: ['session', 'logins'],
    queryFn: getter<LoginMethods>('/api/logins'),
    // Nothing is shown without a response: after a short outage it recovers by itself.
    refetchInterval: ({ state: { data } }) => (data === undefined ? RETRY_MS : false),
    staleTime: 60_000,
  });
  const user = useQuery({
    queryKey: USER,
    queryFn: ({ signal }) => userInfo(signal),
    // Removed roles, or a session that ended elsewhere, show without a reload.
    refetchInterval: ({ state: { data } }) => (data === undefined ? RETRY_MS : USER_MS),
    staleTime: 10_000,
  });
  const configuration = useQuery({
    queryKey: ['session', 'configuration', user.data?.userId],
    queryFn: ({ signal }) => readAllowed<UiConfiguration>('/webapp/getUIConfiguration', signal),
    enabled: user.data != null,
    refetchInterval: CONFIGURATION_MS,
    staleTime: 10_000,
  });
  const usable = useQuery({
    // Pages depend on roles: refetched as soon as the roles are known.
    queryKey: ['session', 'pages', user.data?.userId, user.data?.roles],
    queryFn: ({ signal }) => readAllowed<UsablePages>('/api/pages', signal),
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

  const isResponded = logins.data !== undefined && user.data !== undefined;
  const error = isResponded ? null : (logins.error ?? user.error);
  // Stays during a refetch.
  const [failure, setFailure] = useState<Error | null>(null);
  if (failure !== error && (isResponded || error !== null)) setFailure(error);
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

/**
 * Mark in the session storage that a session ended without a logout, so that the login page explains why it is shown.
 */
const EXPIRED = 'session-expired';

/** Notifies the pages of a login or logout: data of the previous user is dropped. */
export function useSessionChange(): () => Promise<void> {
  const client = useQueryClient();
  return async () => {
    sessionStorage.removeItem(EXPIRED);
    await client.cancelQueries();
    client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'session' });
    await client.resetQueries({ queryKey: ['session'] });
  };
}

/** The caller; null without a login. Recognizes a user without the role that `/userinfo` requires. */
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

/** Reads what users without a role may not read; null for them. */
async function readAllowed<T>(path: string, signal: AbortSignal): Promise<T | null> {
  try {
    return await getter<T>(path)({ signal });
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return null;
    throw error;
  }
}
