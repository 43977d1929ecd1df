import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { basePath } from '../app/gateway.ts';
import { useLive } from './live.ts';

/** Polling interval without the event stream, in milliseconds. */
const LOOK_MS = 2_500;
/** Timeout of a poll. Together with the silence of the stream before it, a loss shows within five seconds. */
const TIMEOUT_MS = 1_900;

export interface Unavailable {
  readonly name: 'database' | 'resource source';
  /** Start and cause, as the gateway reports them. */
  readonly message: string;
}

export interface Health {
  readonly isReachable: boolean;
  readonly unavailable: readonly Unavailable[];
}

const allWell: Health = { isReachable: true, unavailable: [] };

const HEALTH = ['health'];

/** Health of the gateway, as {@link HealthByStream} or {@link HealthByLooks} keeps it up to date. */
export function useHealth(): Health {
  return useQuery({ queryKey: HEALTH, queryFn: ({ signal }) => health(signal), staleTime: LOOK_MS }).data ?? allWell;
}

/** Follows the health of the gateway by the event stream, for users who are known: one of these is in the page. */
export function HealthByStream() {
  const interval = useLive('health', HEALTH);
  useFollowedHealth(interval > LOOK_MS * 4 ? interval : LOOK_MS);
  return null;
}

/** Polls the health if there is no event stream, before the login. */
export function HealthByLooks() {
  useFollowedHealth(LOOK_MS);
  return null;
}

/** Keeps the health up to date, and refetches failed queries when the gateway or a dependency is available again. */
function useFollowedHealth(interval: number): void {
  const client = useQueryClient();
  const { data = allWell } = useQuery({
    queryKey: HEALTH,
    queryFn: ({ signal }) => health(signal),
    refetchInterval: interval,
    staleTime: LOOK_MS,
  });
  const lacks = data.isReachable ? data.unavailable.map(({ name }) => name).join() : 'gateway';
  const before = useRef(lacks);
  useEffect(() => {
    if (before.current !== '' && before.current !== lacks) {
      void client.refetchQueries({ type: 'active', predicate: ({ state }) => state.error !== null });
    }
    before.current = lacks;
  }, [client, lacks]);
}

/** Parses the lines of the probe (docs/rest-api.md#probes). Never throws, except for an aborted poll. */
async function health(signal: AbortSignal): Promise<Health> {
  try {
    const deadline = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
    const answer = await fetch(`${basePath}/readyz?verbose`, { signal: deadline });
    return {
      isReachable: answer.status === 200 || answer.status === 503,
      unavailable: unavailableOf(await answer.text()),
    };
  } catch (error) {
    if (signal.aborted) throw error;
    return { isReachable: false, unavailable: [] };
  }
}

function unavailableOf(lines: string): readonly Unavailable[] {
  return [...lines.matchAll(/^\[-\] (database|resource source): (.*)$/gm)].flatMap(([, name, message = '']) => {
    // A source that is read and has mistakes is available.
    if (name === 'resource source' && !/ is unavailable/.test(message)) return [];
    return [{ name: name as Unavailable['name'], message }];
  });
}
