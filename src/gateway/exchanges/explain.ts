import type { ProductNames } from '../../model/names.ts';
import type { GroupDecision } from '../../routing/groupDecision.ts';

/**
 * The header line that states to a client how its request was routed (`routing.explainHeader`).
 * @param decision null for a follow-up, which belongs to its query's cluster
 */
export function explainLine(
  names: ProductNames,
  decision: GroupDecision | null,
  cluster: string,
  fallback: boolean,
): readonly string[] {
  const parts = [`cluster=${token(cluster)}`];
  if (decision === null) parts.push('by=query');
  else {
    parts.push(`group=${token(decision.group)}`, `by=${decision.decidedBy}`);
    if (decision.rule !== null) parts.push(`rule=${token(decision.rule)}`);
    if (fallback) parts.push('fallback=true');
  }
  return [names.header('Routing-Decision'), parts.join('; ')];
}

/** A value that fits into a header line whatever people named things. */
function token(text: string): string {
  return /^[\w.:-]+$/.test(text) ? text : `"${encodeURIComponent(text)}"`;
}
