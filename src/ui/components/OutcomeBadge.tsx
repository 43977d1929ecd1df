import { Badge, type BadgeProps } from '@mantine/core';
import type { OutcomeView } from '../client/types.ts';

const colors: Readonly<Record<OutcomeView['state'], string>> = {
  FINISHED: 'green',
  FAILED: 'red',
  CANCELLED: 'yellow',
  ABANDONED: 'yellow',
  REFUSED: 'red',
  DENIED: 'red',
  LOST: 'red',
};

export function OutcomeBadge({ state, size = 'sm' }: Pick<OutcomeView, 'state'> & Pick<BadgeProps, 'size'>) {
  return (
    <Badge color={colors[state]} variant="light" size={size} miw="max-content">
      {state.toLowerCase()}
    </Badge>
  );
}
