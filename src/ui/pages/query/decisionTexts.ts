import type { QueryDecision, WholeQuery } from '../../client/types.ts';
import { endText, reachOf } from './reach.ts';

/** Describes the routing of a query. Decisions of a later version are shown unchanged. */
export function describeDecision(decision: QueryDecision, query: WholeQuery): string {
  const { decidedBy, cluster, fallback = false, steps = [] } = decision;
  const by = Object.hasOwn(choices, decidedBy)
    ? choices[decidedBy](decision)
    : `The routing group ${decision.group} was decided by ${JSON.stringify(decidedBy)}, which this version does not know.`;
  if (reachOf(query) !== 'taken') return `${by} ${endText(query)}`.trim();
  if (decidedBy === 'transaction') return `${by} ${cluster} took it.`;
  if (steps.length > 0) return `${by} ${cluster} took the query.`;
  const then = fallback
    ? ` No backend of it could take the query; the default group served instead, by ${cluster}.`
    : ` ${cluster} was active and healthy, and took the query.`;
  return by + then;
}

/** Sentences for the origins of a group decision. */
const choices: Readonly<Record<QueryDecision['decidedBy'], (decision: QueryDecision) => string>> = {
  rule: ({ rule, pinned, group }) =>
    `The rule ${rule ?? 'that decided'} chose ${pinned === undefined ? `the routing group ${group}` : `the backend ${pinned}`}.`,
  header: ({ group }) => `The request's header named the routing group ${group}.`,
  external: ({ group }) => `The external rules service chose the routing group ${group}.`,
  default: ({ group }) => `Nothing named a routing group, so the default one, ${group}, was taken.`,
  transaction: ({ pinned, cluster }) =>
    `The statement belongs to a transaction that ${(pinned ?? cluster) || 'another backend'} began.`,
  cookie: ({ group }) => `The request's cookie belongs to a backend of the routing group ${group}.`,
  prefix: ({ group }) => `The request's URL belongs to a backend of the routing group ${group}.`,
};
