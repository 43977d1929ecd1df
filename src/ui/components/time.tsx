import { useLocalStorage } from '@mantine/hooks';
import { createContext, type ReactNode, useContext, useEffect, useState } from 'react';
import { agoText, dateTimeText } from './zonedTime.ts';

interface Zone {
  readonly timeZone: string;
  /** Null: the browser's. */
  readonly choose: (timeZone: string | null) => void;
}

const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const ZoneContext = createContext<Zone>({ timeZone: browserZone, choose: () => undefined });

/** Zones that can be chosen, UTC and the browser's first. */
export const timeZones: readonly string[] = [...new Set(['UTC', browserZone, ...Intl.supportedValuesOf('timeZone')])];

/** Keeps the chosen time zone, in this browser. */
export function TimeZoneProvider({ children }: { readonly children: ReactNode }) {
  const [chosen, setChosen] = useLocalStorage<string | null>({ key: 'time-zone', defaultValue: null });
  const timeZone = chosen !== null && timeZones.includes(chosen) ? chosen : browserZone;
  return <ZoneContext value={{ timeZone, choose: setChosen }}>{children}</ZoneContext>;
}

/** The time zone that times are shown in. */
export function useTimeZone(): Zone {
  return useContext(ZoneContext);
}

/** A time in the chosen zone. */
export function Time({ at }: { readonly at: number }) {
  const { timeZone } = useTimeZone();
  return (
    <time dateTime={new Date(at).toISOString()} title={timeZone}>
      {dateTimeText(at, timeZone)}
    </time>
  );
}

/** How long ago a time is, kept up to date; the time itself on hovering. */
export function Ago({ at }: { readonly at: number }) {
  const { timeZone } = useTimeZone();
  const now = useNow(1000);
  return (
    <time dateTime={new Date(at).toISOString()} title={`${dateTimeText(at, timeZone)} ${timeZone}`}>
      {agoText(at, now)}
    </time>
  );
}

/** Milliseconds since 1970, renewed every so often. */
function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}
