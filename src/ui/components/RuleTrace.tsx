import { Badge, Group, Text } from '@mantine/core';
import type { RuleEffect } from '../client/types.ts';
import classes from './RuleTrace.module.css';

const looks = {
  fired: { color: 'green', label: 'fired' },
  'not-matched': { color: 'gray', label: 'did not match' },
  failed: { color: 'red', label: 'failed' },
  denied: { color: 'red', label: 'denied' },
  skipped: { color: 'gray', label: 'skipped' },
} as const;

/** What became of every rule, in firing order. */
export function RuleTrace({ rules }: { readonly rules: readonly RuleEffect[] }) {
  return (
    <ol className={classes.trace} aria-label="Rules in firing order">
      {rules.map(({ rule, origin, priority, outcome, put, error }) => (
        <li key={`${origin} ${rule}`} data-outcome={outcome}>
          <Group gap="xs">
            <Text size="sm" fw={500} className={classes.name}>
              {rule}
            </Text>
            <Badge variant="light" color={looks[outcome].color}>
              {looks[outcome].label}
            </Badge>
            <Text size="xs" c="dimmed">
              {origin === 'file' ? 'rules file' : 'resource'},{' '}
              {priority === 2_147_483_647 ? 'no priority' : `priority ${priority}`}
            </Text>
          </Group>
          {put !== undefined &&
            Object.entries(put).map(([key, value]) => (
              <Text key={key} size="sm" className={classes.name}>
                {key} = {value ?? 'null'}
              </Text>
            ))}
          {error !== undefined && (
            <Text size="sm" className={classes.name}>
              {error}
            </Text>
          )}
        </li>
      ))}
    </ol>
  );
}
