import type { ProductNames } from '../../model/names.ts';
import type { ChoiceStep } from '../../routing/choiceSteps.ts';
import type { AnsweringCluster } from './addedLines.ts';

/** Groups that the header names in addition to the one that was decided on; the log and the history name all. */
const MAX_STEPS = 8;

/** The header line that states to a client how its request was routed (`routing.explainHeader`). */
export function explainLine(
  names: ProductNames,
  {
    cluster,
    decision,
    fallback,
    steps,
    admission = null,
  }: Pick<AnsweringCluster, 'cluster' | 'decision' | 'fallback' | 'steps' | 'admission'>,
): readonly string[] {
  const parts = [`cluster=${token(cluster.name)}`];
  if (decision === null) parts.push('by=query');
  else {
    parts.push(`group=${token(decision.group)}`, `by=${decision.decidedBy}`);
    if (decision.rule !== null) parts.push(`rule=${token(decision.rule)}`);
    if (fallback) parts.push('fallback=true');
    if (steps !== null) parts.push(`steps=${steps.slice(-MAX_STEPS).map(shortStep).join(',')}`);
    if (admission !== null) parts.push(`admission="${headerText(admission)}"`);
  }
  return [names.header('Routing-Decision'), parts.join('; ')];
}

/** Content of the header for a queued query. */
export interface ExplainedWait {
  readonly group: string;
  /** Null if this replica does not know. */
  readonly decidedBy: string | null;
  readonly rule: string | null;
  /** Null if those that wait have no order, and where another replica holds it. */
  readonly position: { readonly position: number; readonly waiting: number } | null;
  /** Reason of the wait; null if another replica has it. */
  readonly why: string | null;
}

/** The same line while a query waits: its group and its place there. */
export function waitLine(names: ProductNames, wait: ExplainedWait): readonly string[] {
  const { group, decidedBy, rule, position, why } = wait;
  const parts = [
    ...(group === '' ? [] : [`group=${token(group)}`]),
    ...(decidedBy === null ? [] : [`by=${decidedBy}`]),
    ...(rule === null ? [] : [`rule=${token(rule)}`]),
    'queued=true',
    ...(position === null ? [] : [`position=${position.position}`, `waiting=${position.waiting}`]),
    ...(why === null ? [] : [`admission="${headerText(why)}"`]),
  ];
  return [names.header('Routing-Decision'), parts.join('; ')];
}

function shortStep({ group, outcome }: ChoiceStep): string {
  return `${token(group)}:${outcome}`;
}

/** Text for users in quotes: names in it may be anything. */
function headerText(text: string): string {
  return text.replaceAll(/[^ !#-[\]-~]/g, '?');
}

/** A value that fits into a header line whatever people named things. */
function token(text: string): string {
  return /^[\w.:-]+$/.test(text) ? text : `"${encodeURIComponent(text)}"`;
}
