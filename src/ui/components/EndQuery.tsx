import { Button } from '@mantine/core';
import { IconPlayerStop } from '@tabler/icons-react';
import type { RunningQuery } from '../client/types.ts';

interface EndQueryProps {
  readonly query: RunningQuery;
  /** Asks, then ends the query: `useEnd()`. */
  readonly onEnd: (query: RunningQuery) => void;
}

export function EndQuery({ query, onEnd }: EndQueryProps) {
  return (
    <Button
      size="compact-sm"
      variant="default"
      leftSection={<IconPlayerStop size={14} aria-hidden />}
      aria-label={`End ${query.queryId}`}
      onClick={() => onEnd(query)}
    >
      End
    </Button>
  );
}
