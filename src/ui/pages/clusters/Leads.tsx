import { Anchor, Text } from '@mantine/core';
import { useMemo } from 'react';
import { Link } from 'react-router';
import { useRules } from '../../client/rules.ts';
import { ruleAddress } from '../../components/links.ts';
import { Panel } from '../../components/Panel.tsx';
import { RequestState } from '../../components/QueryState.tsx';
import { useRole, useSees } from '../../session/session.ts';
import classes from './clusterPage.module.css';
import { leadsTo, type RuleDestination } from './leads.ts';

const MAX_RULES = 50;

interface LeadsProps extends RuleDestination {
  /** True if queries without another decision go there. */
  readonly isDefault: boolean;
}

/** Rules that route to a cluster or a routing group, for users who can see rules. */
export function Leads({ cluster, group, isDefault }: LeadsProps) {
  const isShown = [useSees('routing-rules'), useRole('ADMIN')].every(Boolean);
  const rules = useRules(isShown);
  const leads = useMemo(() => leadsTo(rules.data?.rules ?? [], { cluster, group }), [rules.data, cluster, group]);
  if (!isShown) return null;
  return (
    <Panel title="Rules that lead here">
      <RequestState query={rules} label="Loading rules">
        {({ engine }) => (
          <>
            {leads.length > 0 && (
              <ul className={classes.list}>
                {leads.slice(0, MAX_RULES).map(({ rule: { name, description, status, message }, how }) => (
                  <li key={name}>
                    <Anchor component={Link} to={ruleAddress(name)} size="sm" underline="always">
                      {name}
                    </Anchor>{' '}
                    <Text span size="sm">
                      {how}
                      {status === 'Programmed' ? '' : `; ${message}`}
                    </Text>
                    {description !== '' && (
                      <Text size="xs" c="dimmed">
                        {description}
                      </Text>
                    )}
                  </li>
                ))}
              </ul>
            )}
            <Text size="sm" c={leads.length === 0 ? '' : 'dimmed'}>
              {noteOf(leads.length, isDefault, engine)}
            </Text>
          </>
        )}
      </RequestState>
    </Panel>
  );
}

function noteOf(count: number, isDefault: boolean, engine: 'on' | 'off' | 'external'): string {
  if (engine === 'external') return 'An external service decides where queries go.';
  const hidden = count > MAX_RULES ? `${count - MAX_RULES} more lead here. ` : '';
  const none = count === 0 ? 'No rule names it. ' : hidden;
  const byDefault = isDefault ? ' Queries that nothing else decides on go here: it is the default group.' : '';
  return `${none}Clients may name a group in a header, and actions may compute one.${byDefault}`;
}
