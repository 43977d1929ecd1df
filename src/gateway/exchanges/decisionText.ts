import type { ExternalAnswer, GroupDecision } from '../../routing/groupDecision.ts';
import type { FailedAttempt, StoredDecision, StoredExternalAnswer } from '../../routing/storedDecision.ts';
import type { DecisionTrace } from '../../rules/decision.ts';

/** How a query got to its cluster, beside the decision. */
export interface WayToCluster {
  readonly cluster: string;
  /** The default group served in place of the one asked for. */
  readonly fallback: boolean;
  /** Clusters tried before; null for none. */
  readonly attempts: readonly FailedAttempt[] | null;
}

/** A text that is remembered, and what it was made of. */
interface Remembered {
  readonly group: string;
  readonly decidedBy: string;
  readonly rule: string | null;
  readonly pinned: string | null;
  readonly cluster: string;
  readonly fallback: boolean;
  readonly text: string;
}

/** Texts that are remembered of one trace: most groups have a few clusters. */
const MAX_REMEMBERED = 32;

/** Characters of all texts that are remembered together, of however many traces; all are forgotten beyond. */
const MAX_CHARACTERS = 2_000_000;

let remembered = new WeakMap<DecisionTrace, Remembered[]>();
let characters = 0;

/**
 * A decision as it is kept with the query (`StoredDecision` as JSON). Queries that the same rules lead to the same cluster
 * share one text: it is longer than most queries, and a thousand of them wait for the database at a time.
 */
export function decisionText(decision: GroupDecision, way: WayToCluster): string {
  if (decision.external !== undefined || way.attempts !== null) return write(decision, way);
  const { trace, group, decidedBy, rule, cluster: pinned } = decision;
  const { cluster, fallback } = way;
  const known = remembered.get(trace);
  for (const each of known ?? []) {
    if (
      each.cluster === cluster &&
      each.group === group &&
      each.decidedBy === decidedBy &&
      each.rule === rule &&
      each.pinned === pinned &&
      each.fallback === fallback
    ) {
      return each.text;
    }
  }
  const text = write(decision, way);
  remember(trace, { group, decidedBy, rule, pinned, cluster, fallback, text });
  return text;
}

function remember(trace: DecisionTrace, one: Remembered): void {
  characters += one.text.length;
  if (characters > MAX_CHARACTERS) {
    remembered = new WeakMap();
    characters = one.text.length;
  }
  const known = remembered.get(trace) ?? [];
  remembered.set(trace, known);
  // Groups may be the client's to choose: strangers take the places in turn.
  if (known.length >= MAX_REMEMBERED) known.shift();
  known.push(one);
}

/** What the rules did is put in as it is remembered: making it again would cost more than all else here. */
function write(decision: GroupDecision, { cluster, fallback, attempts }: WayToCluster): string {
  const { stored } = decision.trace;
  const rest = JSON.stringify({
    group: decision.group,
    decidedBy: decision.decidedBy,
    ...(decision.rule === null ? {} : { rule: decision.rule }),
    ...(decision.external === undefined ? {} : { external: storedAnswer(decision.external) }),
    ...(decision.cluster === null ? {} : { pinned: decision.cluster }),
    cluster,
    ...(fallback ? { fallback: true } : {}),
    ...(attempts === null ? {} : { attempts }),
  } satisfies StoredDecision);
  return stored === null ? rest : `${rest.slice(0, -1)},"rules":${stored}}`;
}

/** What is kept of the external rules service's answer: values of header lines may be secrets. */
function storedAnswer(answer: ExternalAnswer): StoredExternalAnswer {
  if (!('headers' in answer)) return answer;
  const { headers, ...rest } = answer;
  const set = Object.keys(headers);
  return set.length === 0 ? rest : { ...rest, setHeaders: set };
}
