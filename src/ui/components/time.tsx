import { useLocalStorage } from '@mantine/hooks';
import { createContext, Fragment, type ReactNode, useContext, useEffect, useState } from 'react';
import { agoText, dateTimeText } from './zonedTime.ts';

interface Zone {
  readonly timeZone: string;
  /** Null: the browser's zone. */
  readonly choose: (timeZone: string | null) => void;
}

const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const ZoneContext = createContext<Zone>({ timeZone: browserZone, choose: () => undefined });

export const timeZones: readonly string[] = [...new Set(['UTC', browserZone, ...Intl.supportedValuesOf('timeZone')])];

/** Stores the chosen time zone in this browser. */
export function TimeZoneProvider({ children }: { readonly children: ReactNode }) {
  const [chosen, setChosen] = useLocalStorage<string | null>({ key: 'time-zone', defaultValue: null });
  const timeZone = chosen !== null && timeZones.includes(chosen) ? chosen : browserZone;
  return <ZoneContext value={{ timeZone, choose: setChosen }}>{children}</ZoneContext>;
}

export function useTimeZone(): Zone {
  return useContext(ZoneContext);
}

export function Time({ at }: { readonly at: number }) {
  const { timeZone } = useTimeZone();
  return (
    <time dateTime={new Date(at).toISOString()} title={timeZone}>
      {dateTimeText(at, timeZone)}
    </time>
  );
}

/** The age of a time, kept up to date; shows the time on hovering. */
export function Ago({ at }: { readonly at: number }) {
  const { timeZone } = useTimeZone();
  const now = useNow(1000);
  return (
    <time dateTime={new Date(at).toISOString()} title={`${dateTimeText(at, timeZone)} ${timeZone}`}>
      {agoText(at, now)}
    </time>
  );
}

/** Milliseconds since 1970, updated periodically. */
function useNow(everyMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

const stamps = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

export function MessageText({ text }: { readonly text: string }) {
  return text.split(stamps).map((part, index) => {
    const at = index % 2 === 1 ? Date.parse(part) : Number.NaN;
    // biome-ignore lint/suspicious/noArrayIndexKey: parts have no identity but their place
    return Number.isNaN(at) ? <Fragment key={index}>{part}</Fragment> : <Time key={index} at={at} />;
  });
}
