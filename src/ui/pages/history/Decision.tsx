import { Alert, List, Stack, Text } from '@mantine/core';
import type { QueryDecision } from '../../client/types.ts';
import { RuleTrace } from '../../components/RuleTrace.tsx';

/** How a query was routed: in a sentence, then rule by rule. */
export function Decision({ decision }: { readonly decision: QueryDecision | null }) {
  if (decision === null) {
    return (
      <Alert role="status">No decision is stored with this query: it was routed by a gateway that ran before.</Alert>
    );
  }
  const { cluster, attempts = [], steps = [], external, admission, queuedAs, rules } = decision;
  return (
    <Stack gap="sm">
      <Text>{sentence(decision)}</Text>
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
      {rules === undefined ? <Text size="sm">There were no rules.</Text> : <RuleTrace rules={rules} />}
    </Stack>
  );
}

function sentence(decision: QueryDecision): string {
  const { decidedBy, cluster, fallback = false, steps = [] } = decision;
  const by = choices[decidedBy](decision);
  if (decidedBy === 'transaction') return `${by} ${cluster} took it.`;
  if (steps.length > 0) return `${by} ${cluster} took the query.`;
  const then = fallback
    ? ` No backend of it could take the query; the default group served instead, by ${cluster}.`
    : ` ${cluster} was active and healthy, and took the query.`;
  return by + then;
}

/** What decided about the group, in a sentence. */
const choices: Readonly<Record<QueryDecision['decidedBy'], (decision: QueryDecision) => string>> = {
  rule: ({ rule, pinned, group }) =>
    `The rule ${rule ?? 'that decided'} chose ${pinned === undefined ? `the routing group ${group}` : `the backend ${pinned}`}.`,
  header: ({ group }) => `The request's header named the routing group ${group}.`,
  external: ({ group }) => `The external rules service chose the routing group ${group}.`,
  default: ({ group }) => `Nothing named a routing group, so the default one, ${group}, was taken.`,
  transaction: ({ pinned, cluster }) => `The statement belongs to a transaction that ${pinned ?? cluster} began.`,
  cookie: ({ group }) => `The request's cookie belongs to a backend of the routing group ${group}.`,
  prefix: ({ group }) => `The request's URL belongs to a backend of the routing group ${group}.`,
};

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
