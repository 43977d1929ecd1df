import { Badge, type BadgeProps } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck, IconHourglass } from '@tabler/icons-react';
import type { HealthStatus, OutcomeView } from '../client/types.ts';

const outcomeColors: Readonly<Record<OutcomeView['state'], string>> = {
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
    <Badge color={outcomeColors[state]} variant="light" size={size} miw="max-content">
      {state.toLowerCase()}
    </Badge>
  );
}

const looks = {
  HEALTHY: { color: 'green', Icon: IconCircleCheck },
  PENDING: { color: 'yellow', Icon: IconHourglass },
  UNHEALTHY: { color: 'red', Icon: IconAlertTriangle },
} as const;

export function StatusBadge({ status }: { readonly status: HealthStatus }) {
  const { color, Icon } = looks[status];
  return (
    <Badge variant="light" color={color} leftSection={<Icon size={12} aria-hidden />}>
      {status}
    </Badge>
  );
}
