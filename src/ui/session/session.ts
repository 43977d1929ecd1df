import { useQuery, useQueryClient } from '@tanstack/react-query';
import { createContext, useContext, useEffect } from 'react';
import { ApiError } from '../client/apiError.ts';
import { call, onSessionEnded } from '../client/call.ts';
import { USER } from '../client/queryClient.ts';
import type { LoginType, Role, UiConfiguration, UserInfo } from '../client/types.ts';

/** Who uses the pages, and what they are shown. */
export interface Session {
  readonly user: UserInfo;
  readonly loginType: LoginType;
  readonly disabledPages: readonly string[];
}

/** How far finding that out has come. */
export type SessionState =
  | { readonly kind: 'loading' }
  | { readonly kind: 'failed'; readonly error: Error; readonly retry: () => void }
  | { readonly kind: 'anonymous'; readonly loginType: LoginType; readonly expired: boolean }
  | { readonly kind: 'known'; readonly session: Session };

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

/** Asks the gateway who calls, and notices when the session ends. */
export function useSessionState(): SessionState {
  const client = useQueryClient();
  const loginType = useQuery({
    queryKey: ['session', 'loginType'],
    queryFn: ({ signal }) => call<LoginType>('/loginType', { signal }),
    staleTime: 60_000,
  });
  const user = useQuery({
    queryKey: USER,
    queryFn: ({ signal }) => userInfo(signal),
    // Roles that are taken away, or a session ended elsewhere, show without reload.
    refetchInterval: 30_000,
    staleTime: 10_000,
  });
  const configuration = useQuery({
    queryKey: ['session', 'configuration', user.data?.userId],
    queryFn: ({ signal }) => uiConfiguration(signal),
    enabled: user.data != null,
    refetchInterval: 30_000,
    staleTime: 10_000,
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

  const error = loginType.error ?? user.error;
  if (error !== null && (loginType.data === undefined || user.data === undefined)) {
    const retry = () => void client.invalidateQueries({ queryKey: ['session'] });
    return { kind: 'failed', error, retry };
  }
  if (loginType.data === undefined || user.data === undefined) return { kind: 'loading' };
  if (user.data === null) {
    return { kind: 'anonymous', loginType: loginType.data, expired: sessionStorage.getItem(EXPIRED) !== null };
  }
  if (configuration.data === undefined && configuration.error === null) return { kind: 'loading' };
  const disabledPages = configuration.data?.disablePages ?? [];
  return { kind: 'known', session: { user: user.data, loginType: loginType.data, disabledPages } };
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
