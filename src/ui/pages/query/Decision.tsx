import { Alert, List, Stack, Text } from '@mantine/core';
import { storedHeaders } from '../../client/queries.ts';
import type { Explanation, QueryDecision, RuleEffect } from '../../client/types.ts';
import { RuleTrace } from '../../components/RuleTrace.tsx';
import { decisionText } from './decisionTexts.ts';
import classes from './query.module.css';

type Condition = Explanation['conditions'][number];

interface DecisionProps {
  readonly decision: QueryDecision | null;
  /** What conditions of rules read, as the rules are now. */
  readonly conditions: readonly Condition[];
}

/** How a query was routed: in a sentence, then rule by rule. */
export function Decision({ decision, conditions }: DecisionProps) {
  if (decision === null) {
    return (
      <Alert role="status">
        No decision is stored with this query: no cluster has it yet, or it was routed by a gateway that ran before.
      </Alert>
    );
  }
  const conditionOf = ({ rule, origin }: RuleEffect) =>
    conditions.find((each) => each.rule === rule && each.origin === origin);
  const { cluster, attempts = [], steps = [], external, admission, queuedAs, rules } = decision;
  return (
    <Stack gap="sm">
      <Text>{decisionText(decision)}</Text>
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
          <Text size="sm" fw={500}>
            Tried before {cluster}
          </Text>
          <List size="sm">
            {attempts.map((attempt) => (
              <List.Item key={attempt.cluster}>
                {attempt.cluster}: {attempt.error}
              </List.Item>
            ))}
          </List>
        </div>
      )}
      {rules === undefined ? (
        <Text size="sm">There were no rules.</Text>
      ) : (
        <RuleTrace
          rules={rules}
          linked
          about={(effect) => {
            const condition = conditionOf(effect);
            return condition === undefined ? null : <ConditionRead condition={condition} />;
          }}
        />
      )}
      {conditions.length > 0 && (
        <Text size="xs" c="dimmed">
          Conditions are shown as they are now, with the values that they read of what is stored of the request.
        </Text>
      )}
    </Stack>
  );
}

/** A condition with the values that it read. */
function ConditionRead({ condition: { condition, values } }: { readonly condition: Condition }) {
  return (
    <>
      <pre className={classes.condition}>{condition}</pre>
      {values.length > 0 && (
        <ul className={classes.values} aria-label="Values">
          {values.map(({ expression, value, source }) => (
            <li key={expression}>
              <code>{expression}</code>: {isStored(source) ? <code>{value}</code> : 'not stored'}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

/** Whether a value follows from what is stored with a query: its user, source and text. */
function isStored(source: string | null): boolean {
  if (source === null) return false;
  const header = /^header:(.*)$/.exec(source)?.[1];
  return header === undefined || storedHeaders.includes(header);
}

/** What the external rules service said. */
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
