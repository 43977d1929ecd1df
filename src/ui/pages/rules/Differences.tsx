import { Text, Title } from '@mantine/core';
import { useId } from 'react';
import type { RuleInput } from '../../client/types.ts';
import classes from './rules.module.css';

export interface Difference {
  readonly field: string;
  readonly before: string;
  readonly after: string;
}

const labels = {
  description: 'Description',
  priority: 'Priority',
  condition: 'Condition',
  actions: 'Actions',
  routeTo: 'To',
  deny: 'Denied with',
  onUnavailable: 'Where no cluster can take it',
  stop: 'No later rule is asked',
  suspended: 'Suspended',
} as const;

/** Changed fields of a rule; empty for a new one. */
export function differences(before: RuleInput | null, after: RuleInput): readonly Difference[] {
  if (before === null) return [];
  return (Object.keys(labels) as (keyof typeof labels)[])
    .map((field) => ({ field: labels[field], before: textOf(before[field]), after: textOf(after[field]) }))
    .filter((change) => change.before !== change.after);
}

function textOf(value: RuleInput[keyof typeof labels]): string {
  if (value === null || value === '') return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (typeof value !== 'object') return String(value);
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.join('\n');
  if ('message' in value) return value.message;
  const { cluster, routingGroup } = value as NonNullable<RuleInput['routeTo']>;
  return cluster === undefined ? `group ${routingGroup}` : `cluster ${cluster}`;
}

export function Differences({ changes }: { readonly changes: readonly Difference[] }) {
  const heading = useId();
  return (
    <section aria-labelledby={heading} className={classes.changes}>
      <Title order={2} size="h5" id={heading}>
        What changes
      </Title>
      {changes.length === 0 ? (
        <Text size="sm" c="dimmed">
          Nothing yet.
        </Text>
      ) : (
        <dl>
          {changes.map(({ field, before, after }) => (
            <div key={field}>
              <dt>{field}</dt>
              <dd>
                <del className={classes.code}>{before}</del>
              </dd>
              <dd>
                <ins className={classes.code}>{after}</ins>
              </dd>
            </div>
          ))}
        </dl>
      )}
    </section>
  );
}
