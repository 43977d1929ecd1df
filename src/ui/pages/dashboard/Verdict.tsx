import { Group, Paper, Text } from '@mantine/core';
import { IconAlertOctagon, IconAlertTriangle, IconCircleCheck } from '@tabler/icons-react';
import type { Overview, ProblemList } from '../../client/types.ts';
import { Time } from '../../components/time.tsx';
import classes from './dashboard.module.css';
import { verdictText } from './problemTexts.ts';

const looks = {
  ok: { Icon: IconCircleCheck, className: classes.good, word: 'fine' },
  warning: { Icon: IconAlertTriangle, className: classes.poor, word: 'warning' },
  critical: { Icon: IconAlertOctagon, className: classes.critical, word: 'critical' },
} as const;

interface VerdictProps {
  readonly list: ProblemList;
  readonly clusters: Overview['clusters'] | null;
}

export function Verdict({ list, clusters }: VerdictProps) {
  const { Icon, className, word } = looks[list.verdict];
  return (
    <Paper withBorder p="sm" component="section" aria-label="Verdict" className={classes[`verdict-${list.verdict}`]}>
      <Group justify="space-between" gap="xs">
        <Group gap="xs" wrap="nowrap" role="status">
          <Icon size={24} className={className} role="img" aria-label={word} />
          <Text fw={600} className={classes.name}>
            {verdictText(list, clusters)}
          </Text>
        </Group>
        <Text size="sm" c="dimmed">
          as of <Time at={Date.parse(list.asOf)} />
        </Text>
      </Group>
    </Paper>
  );
}
