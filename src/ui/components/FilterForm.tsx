import { Button, Group, Paper } from '@mantine/core';
import type { FormEventHandler, ReactNode } from 'react';
import { useTimeZone } from './time.tsx';
import { timeOfWall, wallOfTime } from './zonedTime.ts';

interface FilterFormProps {
  readonly className: string | undefined;
  readonly onSubmit: FormEventHandler<HTMLFormElement>;
  readonly onClear: () => void;
  readonly children: ReactNode;
}

export function FilterForm({ className, onSubmit, onClear, children }: FilterFormProps) {
  return (
    <Paper withBorder p="sm" component="search">
      <form onSubmit={onSubmit} aria-label="Filters">
        <div className={className}>{children}</div>
        <Group justify="flex-end" mt="sm" gap="xs">
          <Button size="xs" variant="default" onClick={onClear}>
            Clear
          </Button>
          <Button size="xs" type="submit">
            Filter
          </Button>
        </Group>
      </form>
    </Paper>
  );
}

/** Converts between milliseconds since 1970 as text and values of fields of the type datetime-local; empty if invalid. */
export function useWallTimes() {
  const { timeZone } = useTimeZone();
  return {
    timeZone,
    toWall: (time: string) => (/^\d{1,15}$/.test(time) ? wallOfTime(Number(time), timeZone) : ''),
    toTime: (wall: string) => String(timeOfWall(wall, timeZone) ?? ''),
  };
}

/** Returns the mistake in a range of wall-clock times; null if it is valid or incomplete. */
export function wrongEnd(to: string, { from }: { readonly from: string }): string | null {
  return from !== '' && to !== '' && to <= from ? 'Must be later than "From".' : null;
}
