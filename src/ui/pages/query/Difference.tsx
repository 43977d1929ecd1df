import { Text } from '@mantine/core';
import type { Explanation, QueryDecision, RuleEffect, WholeQuery } from '../../client/types.ts';
import { PlainTable } from '../../components/elements.tsx';
import { lookOf } from '../../components/RuleTrace.tsx';
import classes from './query.module.css';
import { reachOf } from './reach.ts';

interface DifferenceProps {
  readonly query: WholeQuery;
  readonly explanation: Explanation;
}

/** Compares the original decision with the current one, if they differ. */
export function DecisionDifference({ query, explanation }: DifferenceProps) {
  const rows = differences(query, explanation);
  if (rows.length === 0) return <Text size="sm">The same as then.</Text>;
  return (
    <PlainTable
      label="What is otherwise now"
      className={classes.difference}
      head={['What', 'Then', 'Now']}
      hasRowHeads
      rows={rows.map(({ what, before, now }) => ({ key: what, cells: [what, before, now] }))}
    />
  );
}

interface Row {
  readonly what: string;
  readonly before: string;
  readonly now: string;
}

const MAX_RULES = 20;

/** True if enough of the original decision is stored. */
export function isComparable(query: WholeQuery): boolean {
  return query.decision !== null || reachOf(query) === 'denied';
}

function differences(query: WholeQuery, now: Explanation): readonly Row[] {
  const { decision, rule } = query;
  const reach = reachOf(query);
  const taken = now.clusters.filter((each) => each.taken).map(({ cluster }) => cluster);
  const outcome = { what: 'Outcome', before: outcomeThen(query), now: outcomesNow[now.outcome] ?? now.outcome };
  // A denial makes all other decisions irrelevant.
  const deniedNow = now.outcome === 'denied' ? byText('no rule', now.rule) : 'nothing';
  const decidedThen = byText(decision?.decidedBy ?? 'nothing', decision?.rule);
  const decided =
    reach === 'denied'
      ? [{ what: 'Denied by', before: byText('no rule', rule), now: deniedNow }]
      : [
          { what: 'Routing group', before: decision?.group || 'none', now: now.routingGroup },
          { what: 'Decided by', before: decidedThen, now: byText(now.decidedBy, now.rule) },
        ];
  const others: Row[] = [outcome, ...decided].filter((row) => row.before !== row.now);
  const before = reach === 'taken' ? (decision?.cluster ?? '') : '';
  // A queued query might have reached any of them.
  const isOther = reach === 'dropped' ? false : before === '' ? taken.length > 0 : !taken.includes(before);
  if (isOther) others.push({ what: 'Cluster', before: before || 'none', now: taken.join(' or ') || 'none' });
  return decision === null ? others : [...others, ...ruleDifferences(decision, now.rules)];
}

/** Outcome of a query at that time, in the words of the explanation. */
function outcomeThen(query: WholeQuery): string {
  const reach = reachOf(query);
  if (reach === 'denied') return 'denied';
  if (reach !== 'refused') return 'routed';
  return query.outcome?.errorName === NO_CLUSTER ? outcomesNow.noCluster : 'refused';
}

/** Error of a submission without available clusters (docs/protocol.md#refusals). */
const NO_CLUSTER = 'NO_NODES_AVAILABLE';

const outcomesNow: Readonly<Record<Explanation['outcome'], string>> = {
  routed: 'routed',
  denied: 'denied',
  rejected: 'refused',
  noCluster: 'no cluster',
};

const byText = (by: string, rule: string | null | undefined): string => (rule == null ? by : `the rule ${rule}`);

function ruleDifferences({ rules: before }: QueryDecision, now: readonly RuleEffect[]): readonly Row[] {
  if (before === undefined) return [];
  const keyOf = ({ origin, rule }: Pick<RuleEffect, 'origin' | 'rule'>) => `${origin} ${rule}`;
  const [earlier, later] = [before, now].map((rules) => new Map(rules.map((each) => [keyOf(each), each])));
  const rows: Row[] = [];
  for (const key of new Set([...(earlier?.keys() ?? []), ...(later?.keys() ?? [])])) {
    const [one, other] = [earlier?.get(key), later?.get(key)];
    // Of many rules, rules without a match are not stored.
    const texts = [effectText(one, other), effectText(other, one)] as const;
    if (texts[0] === texts[1]) continue;
    rows.push({ what: `Rule ${one?.rule ?? other?.rule}`, before: texts[0], now: texts[1] });
  }
  return rows.slice(0, MAX_RULES);
}

function effectText(effect: RuleEffect | undefined, other: RuleEffect | undefined): string {
  if (effect === undefined)
    return other?.outcome === 'not-matched' ? lookOf('not-matched').label : 'was not there, or did not match';
  const put = Object.entries(effect.put ?? {}).map(([key, value]) => `${key} = ${value ?? 'null'}`);
  return [lookOf(effect.outcome).label, ...put].join(', ');
}
