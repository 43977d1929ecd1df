import { Anchor, Group, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { Link } from 'react-router';
import { NO_PRIORITY } from '../client/resources.ts';
import type { RuleEffect } from '../client/types.ts';
import { useSees } from '../session/session.ts';
import classes from './components.module.css';
import { Faint, LightBadge } from './elements.tsx';
import { ruleAddress } from './names.tsx';

const looks = {
  fired: { color: 'green', label: 'fired' },
  'not-matched': { color: 'gray', label: 'did not match' },
  failed: { color: 'red', label: 'failed' },
  denied: { color: 'red', label: 'denied' },
  skipped: { color: 'gray', label: 'skipped' },
} as const;

/** Outcomes of a later version are shown unchanged. */
export const lookOf = (outcome: RuleEffect['outcome']) =>
  Object.hasOwn(looks, outcome) ? looks[outcome] : { color: 'gray', label: outcome };

interface RuleTraceProps {
  readonly rules: readonly RuleEffect[];
  readonly about?: (rule: RuleEffect) => ReactNode;
  readonly linked?: boolean;
}

/** Effects of all rules, in firing order. */
export function TraceList({ rules, about, linked = false }: RuleTraceProps) {
  const named = { size: 'sm', fw: 500, className: classes.name } as const;
  const isLinked = useSees('routing-rules') && linked;
  return (
    <ol className={classes.trace} aria-label="Rules in firing order">
      {rules.map((effect) => {
        const { rule, origin, priority, outcome, put, error } = effect;
        return (
          <li key={`${origin} ${rule}`} data-outcome={outcome}>
            <Group gap="xs">
              {isLinked ? (
                <Anchor {...{ component: Link, to: ruleAddress(rule), underline: 'always' }} {...named}>
                  {rule}
                </Anchor>
              ) : (
                <Text {...named}>{rule}</Text>
              )}
              <LightBadge color={lookOf(outcome).color} text={lookOf(outcome).label} />
              <Faint>
                {origin === 'file' ? 'rules file' : 'resource'},{' '}
                {priority === NO_PRIORITY ? 'no priority' : `priority ${priority}`}
              </Faint>
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
            {about?.(effect)}
          </li>
        );
      })}
    </ol>
  );
}
