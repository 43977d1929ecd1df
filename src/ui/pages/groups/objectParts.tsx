import { SegmentedControl, Text } from '@mantine/core';
import { useMemo } from 'react';
import { type FigureRange, figureRanges, type RunningFilter, useFigures, useRules } from '../../client/resources.ts';
import type { RuleState, Statistics } from '../../client/types.ts';
import { useAddressState } from '../../components/addressState.ts';
import { Faint, formatElapsed, To } from '../../components/elements.tsx';
import { type Fact, FactList, PlainTable } from '../../components/facts.tsx';
import { Panel, RequestPanel, RequestState } from '../../components/frame.tsx';
import { queryAddress, ruleAddress } from '../../components/names.tsx';
import { Time } from '../../components/time.tsx';
import { useRole, useSees } from '../../session/session.ts';
import classes from '../clusters/clusters.module.css';
import { failuresText } from '../dashboard/chart.ts';

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
    <RequestPanel title="Rules that lead here" query={rules} label="Loading rules">
      {({ engine }) => (
        <>
          {leads.length > 0 && (
            <ul className={classes.list}>
              {leads.slice(0, MAX_RULES).map(({ rule: { name, description, status, message }, how }) => (
                <li key={name}>
                  <To address={ruleAddress(name)}>{name}</To>{' '}
                  <Text span size="sm">
                    {how}
                    {status === 'Programmed' ? '' : `; ${message}`}
                  </Text>
                  {description !== '' && <Faint>{description}</Faint>}
                </li>
              ))}
            </ul>
          )}
          <Text size="sm" c={leads.length === 0 ? '' : 'dimmed'}>
            {leadsNote(leads.length, isDefault, engine)}
          </Text>
        </>
      )}
    </RequestPanel>
  );
}

function leadsNote(count: number, isDefault: boolean, engine: 'on' | 'off' | 'external'): string {
  if (engine === 'external') return 'An external service decides where queries go.';
  const hidden = count > MAX_RULES ? `${count - MAX_RULES} more lead here. ` : '';
  const none = count === 0 ? 'No rule names it. ' : hidden;
  const byDefault = isDefault ? ' Queries that nothing else decides on go here: it is the default group.' : '';
  return `${none}Clients may name a group in a header, and actions may compute one.${byDefault}`;
}

interface QueryFiguresProps {
  readonly of: RunningFilter;
  readonly history: string;
}

const rangeChoices = [
  { value: 'hour', label: 'Last hour' },
  { value: 'day', label: 'Last day' },
  { value: 'week', label: 'Last week' },
];

/** Counts, durations and last errors of the queries that ended in the range of the address. */
export function QueryFigures(props: QueryFiguresProps) {
  return useSees('history') ? <ShownFigures {...props} /> : null;
}

function ShownFigures({ of, history }: QueryFiguresProps) {
  const [chosen, setChosen] = useAddressState('range', 'hour');
  const range = chosen in figureRanges ? (chosen as FigureRange) : 'hour';
  const figures = useFigures(of, range);
  const choose = (value: string) => setChosen(value, 'push');
  return (
    <Panel
      title="Rates and errors"
      actions={<SegmentedControl size="xs" aria-label="Range" data={rangeChoices} value={range} onChange={choose} />}
    >
      <RequestState query={figures} label="Loading figures">
        {({ figures: values, failures, keptHours }) => (
          <>
            {values === null ? (
              <Text size="sm">No query has ended in this time.</Text>
            ) : (
              <FactList facts={figureFacts(values, figureRanges[range])} />
            )}
            {failures.length > 0 && (
              <PlainTable
                label="Last errors"
                className={classes.failures}
                head={['Last errors', 'Error']}
                rows={failures.map(({ queryId, created, user, outcome }) => ({
                  key: queryId,
                  cells: [
                    <div key="query" className={classes.id}>
                      <To address={queryAddress(queryId)} size="xs">
                        {queryId}
                      </To>
                      <Faint>
                        <Time at={Date.parse(created)} /> {user ?? ''}
                      </Faint>
                    </div>,
                    <div key="error">
                      <Text size="xs">{outcome?.errorName ?? outcome?.state.toLowerCase()}</Text>
                      <Faint lineClamp={2} className={classes.breaking}>
                        {outcome?.errorMessage}
                      </Faint>
                    </div>,
                  ],
                }))}
              />
            )}
            <Faint mt="xs">
              {figureRanges[range] > keptHours * 3_600_000 && `Queries are kept for ${keptHours} hours. `}
              <To address={history} size="xs">
                All in the history
              </To>
            </Faint>
          </>
        )}
      </RequestState>
    </Panel>
  );
}

type Values = Statistics['values'][number];

function figureFacts(values: Values, rangeMs: number): readonly Fact[] {
  const { queries, failures: failed, refused, userErrors, states, elapsedMillis, queuedMillis } = values;
  const perMinute = queries / (rangeMs / 60_000);
  const rate = perMinute >= 10 ? Math.round(perMinute) : perMinute.toFixed(1);
  const byState = Object.entries(states)
    .map(([state, count]) => [state, state === 'FAILED' ? count - userErrors : count] as const)
    .filter(([, count]) => count > 0)
    .map(([state, count]) => `${count.toLocaleString('en')} ${state.toLowerCase()}`);
  const endings = userErrors === 0 ? byState : [...byState, `${userErrors.toLocaleString('en')} users’ errors`];
  const share = (failed + refused) / queries;
  return [
    ['Queries', `${queries.toLocaleString('en')} (${rate} a minute)`],
    ['How they ended', endings.join(', ')],
    ['Failed or refused', `${(share * 100).toFixed(1)} %: ${failuresText({ failed, refused, userErrors })}`],
    ['Duration', percentilesText(elapsedMillis)],
    ['Queued', percentilesText(queuedMillis)],
  ];
}

function percentilesText({ p50, p95, p99 }: Values['elapsedMillis']): string {
  if (p50 === null || p95 === null || p99 === null) return 'not known';
  return `half within ${formatElapsed(p50)}, 95 % within ${formatElapsed(p95)}, 99 % within ${formatElapsed(p99)}`;
}

interface RuleDestination {
  /** Null: any cluster of the group. */
  readonly cluster: string | null;
  readonly group: string | null;
}

/**
 * Rules that route to a cluster or its group, in firing order: by their target, or by an action that names the group as
 * a literal. Computed groups are unknown until a query arrives.
 */
function leadsTo(
  rules: readonly RuleState[],
  { cluster, group }: RuleDestination,
): readonly { readonly rule: RuleState; readonly how: string }[] {
  return rules.flatMap((rule) => {
    const { routeTo, actions } = rule;
    if (cluster !== null && routeTo?.cluster === cluster) return [{ rule, how: 'to this backend alone' }];
    if (group === null) return [];
    if (routeTo?.routingGroup === group) return [{ rule, how: `to the group ${group}` }];
    const isNamed = actions.some((action) => action.includes(JSON.stringify(group)) || action.includes(`'${group}'`));
    return isNamed ? [{ rule, how: `an action names ${group}` }] : [];
  });
}
