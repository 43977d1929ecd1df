import { Badge } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck, IconHourglass } from '@tabler/icons-react';
import type { HealthStatus } from '../client/types.ts';

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
