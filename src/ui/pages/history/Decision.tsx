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
  const { cluster, attempts = [], rules } = decision;
  return (
    <Stack gap="sm">
      <Text>{sentence(decision)}</Text>
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

function sentence({ group, decidedBy, rule, pinned, cluster, fallback = false }: QueryDecision): string {
  const by =
    decidedBy === 'rule'
      ? `The rule ${rule ?? 'that decided'} chose ${pinned === undefined ? `the routing group ${group}` : `the backend ${pinned}`}.`
      : decidedBy === 'header'
        ? `The request's header named the routing group ${group}.`
        : decidedBy === 'external'
          ? `The external rules service chose the routing group ${group}.`
          : decidedBy === 'default'
            ? `Nothing named a routing group, so the default one, ${group}, was taken.`
            : `The routing group ${group} was decided by ${decidedBy}${rule === undefined ? '' : ` (${rule})`}.`;
  const then = fallback
    ? ` No backend of it could take the query; the default group served instead, by ${cluster}.`
    : ` ${cluster} was active and healthy, and took the query.`;
  return by + then;
}
