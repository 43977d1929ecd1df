import { Alert, List, Stack, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { isStored } from '../../client/storedRequest.ts';
import type { Explanation, QueryDecision, WholeQuery } from '../../client/types.ts';
import { Faint, Strong } from '../../components/elements.tsx';
import { ClusterName, RuleName } from '../../components/namedObject.tsx';
import { TraceList } from '../../components/RuleTrace.tsx';
import { describeDecision } from './decisionTexts.ts';
import classes from './query.module.css';
import { endText, type Reach, reachOf } from './reach.ts';

type Condition = Explanation['conditions'][number];

interface DecisionProps {
  readonly query: WholeQuery;
  readonly conditions: readonly Condition[];
}

/** Routing of a query: a sentence, then rule by rule. */
export function Decision({ query, conditions: conditionsNow }: DecisionProps) {
  const { decision, rule = null } = query;
  const { rules, conditions: conditionsThen = [] } = decision ?? {};
  const conditionOf = (name: string, origin?: Condition['origin']): ReactNode => {
    const isIts = (each: Condition) => each.rule === name && (origin === undefined || each.origin === origin);
    const then = conditionsThen.find(isIts);
    if (then !== undefined) return <ConditionRead condition={then} isKnown={() => true} />;
    const now = conditionsNow.find(isIts);
    return now === undefined ? null : <ConditionRead condition={now} isKnown={(source) => isStored(query, source)} />;
  };
  const isDecided = decision !== null && decision.group !== '';
  return (
    <Stack gap="sm">
      {isDecided ? (
        <Text className={classes.message}>{describeDecision(decision, query)}</Text>
      ) : (
        <Undecided query={query} />
      )}
      {decision !== null && <Way decision={decision} />}
      {rules !== undefined ? (
        <TraceList rules={rules} linked about={(effect) => conditionOf(effect.rule, effect.origin)} />
      ) : (
        <>
          {isDecided && rule === null && <Text size="sm">There were no rules.</Text>}
          {rule !== null && conditionOf(rule)}
        </>
      )}
      {conditionsNow.length > 0 && (
        <Faint>
          Conditions are shown as they are now, with the values that they read of what is stored of the request
          {conditionsThen.length > 0 && '; that of the rule which refused it as it was then'}.
        </Faint>
      )}
    </Stack>
  );
}

/** Explains a query that ended before its routing group was decided, or without a stored decision. */
function Undecided({ query }: { readonly query: WholeQuery }) {
  const { rule, outcome } = query;
  const reach = reachOf(query);
  if (reach === 'denied' || reach === 'refused') {
    return (
      <Text component="div" className={classes.message}>
        {rule != null ? (
          <>
            The rule <RuleName name={rule} /> {reach === 'denied' ? 'denied it' : 'could not be decided'}.{' '}
          </>
        ) : (
          reach === 'denied' && 'It was denied. '
        )}
        {endText(query)}
      </Text>
    );
  }
  const why: Readonly<Record<Exclude<Reach, 'refused' | 'denied'>, string>> = {
    taken: 'No decision is stored with this query: it was routed by a gateway that ran before.',
    waiting: 'No decision is stored yet: the query waits for a cluster.',
    dropped: `No decision is stored with this query: it ended (${outcome?.state.toLowerCase()}) while it waited for a cluster.`,
  };
  return <Alert role="status">{why[reach]}</Alert>;
}

/** Steps of a query to its cluster: external service, waits, attempts. */
function Way({ decision }: { readonly decision: QueryDecision }) {
  const { group, cluster, attempts = [], steps = [], candidates = [], external, admission, queuedAs } = decision;
  return (
    <>
      {external !== undefined && <Text size="sm">{answered(external)}</Text>}
      {admission !== undefined && <Text size="sm">It waited: {admission}.</Text>}
      {queuedAs !== undefined && <Text size="sm">While it waited its id was {queuedAs}.</Text>}
      {steps.length > 0 && (
        <List size="sm">
          {steps.map((step) => (
            <List.Item key={step}>{step}</List.Item>
          ))}
        </List>
      )}
      {attempts.length > 0 && (
        <div>
          <Strong>{cluster === '' ? 'Tried' : `Tried before ${cluster}`}</Strong>
          <List size="sm">
            {attempts.map((attempt) => (
              <List.Item key={attempt.cluster}>
                {attempt.cluster}: {attempt.error}
              </List.Item>
            ))}
          </List>
        </div>
      )}
      {candidates.length > 0 && (
        <div>
          <Strong>Clusters considered then</Strong>
          <ul className={classes.clusters} aria-label="Clusters considered then">
            {candidates.map((candidate) => (
              <li key={candidate.cluster}>
                <ClusterName name={candidate.cluster} />: {candidateText(candidate, group)}
              </li>
            ))}
          </ul>
        </div>
      )}
    </>
  );
}

type Candidate = NonNullable<QueryDecision['candidates']>[number];

function candidateText(candidate: Candidate, group: string): string {
  const { routingGroup, taken, chosen, reason, queued, running } = candidate;
  const part = chosen ? 'chosen' : taken ? 'could have taken it' : 'could not take it';
  const counts = [
    ...(queued === undefined ? [] : [`${queued} queued`]),
    ...(running === undefined ? [] : [`${running} running by its last check`]),
  ];
  return [part, ...(routingGroup === group ? [] : [`of ${routingGroup}`]), reason, ...counts].join(', ');
}

interface ConditionReadProps {
  readonly condition: Condition;
  readonly isKnown: (source: string | null) => boolean;
}

function ConditionRead({ condition: { condition, values }, isKnown }: ConditionReadProps) {
  return (
    <>
      <pre className={classes.condition}>{condition}</pre>
      {values.length > 0 && (
        <ul className={classes.values} aria-label="Values">
          {values.map(({ expression, value, source }) => (
            <li key={expression}>
              <code>{expression}</code>: {isKnown(source) ? <code>{value}</code> : 'not stored'}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** Text for the response of the external rules service. */
function answered(external: NonNullable<QueryDecision['external']>): string {
  switch (external.outcome) {
    case 'answered':
      return `The external rules service answered with the routing group ${external.routingGroup}${headers(external)}.`;
    case 'errors':
      return `The external rules service answered with errors${headers(external)}: ${external.errors.join('; ') || 'none named'}.`;
    case 'failed':
      return `The external rules service did not answer as it should: ${external.reason}.`;
    case 'skipped':
      return `The external rules service was not asked, as it had failed before: ${external.reason}.`;
  }
}

const headers = ({ setHeaders = [] }: { readonly setHeaders?: readonly string[] }): string =>
  setHeaders.length === 0 ? '' : ` and set ${setHeaders.join(', ')}`;
