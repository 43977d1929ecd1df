import type { Membership } from '../../model/membership.ts';
import type { NameMapping } from '../../model/requestUser.ts';
import type { StoredChoice } from '../../routing/candidates.ts';
import type { ChoiceStep } from '../../routing/choiceSteps.ts';
import type { ExternalAnswer, GroupDecision } from '../../routing/groupDecision.ts';
import type { RefusalReason } from '../../routing/refusal.ts';
import type {
  DecisionTimes,
  FailedAttempt,
  StoredDecision,
  StoredExternalAnswer,
  StoredRequest,
  StoredUserGroups,
} from '../../routing/storedDecision.ts';
import type { ReadCondition } from '../../rules/decision.ts';

/** How a query got to its cluster, beside the decision. */
export interface WayToCluster {
  readonly cluster: string;
  /** Another group served in place of the one asked for. */
  readonly fallback: boolean;
  /** How it came to this cluster; null where it is one of the group asked for. */
  readonly steps: readonly ChoiceStep[] | null;
  /** Clusters tried before; null for none. */
  readonly attempts: readonly FailedAttempt[] | null;
  /** The clusters that were there for it; left out or null where none was chosen among several. */
  readonly choice?: StoredChoice | null;
  /** What it waited for, and how long; null where it did not wait. */
  readonly admission?: string | null;
  /** The gateway's own id under which it waited; left out where it did not. */
  readonly queuedAs?: string;
  /** Why the gateway refused it; left out where it did not. */
  readonly refused?: RefusalReason;
  /** The condition of a rule that refused it; left out where none did. */
  readonly conditions?: readonly ReadCondition[];
  /** When its steps were over. */
  readonly times?: DecisionTimes;
  /** What is kept of its request. */
  readonly request?: StoredRequest;
  /** Groups of its user; left out where no source of groups is configured. */
  readonly membership?: Membership | undefined;
  /** What the user mapping did; left out where the user's name is not mapped. */
  readonly mapping?: NameMapping | undefined;
}

/** A decision, or what is known of a query that was refused before there was one. */
export type KeptDecision =
  | GroupDecision
  | (Omit<GroupDecision, 'decidedBy' | 'onUnavailable'> & Pick<StoredDecision, 'decidedBy'>);

/** Groups of one source that are kept. */
const MAX_KEPT_GROUPS = 64;

/**
 * A decision as it is kept with the query: `StoredDecision` as JSON. What the rules did is put in as a text that decisions by
 * the same values share.
 */
export function decisionText(decision: KeptDecision, way: WayToCluster): string {
  const { cluster, fallback, steps, attempts, admission = null, queuedAs, request, membership, mapping } = way;
  const { refused, conditions = [], times, choice = null } = way;
  const { stored } = decision.trace;
  const rest = JSON.stringify({
    group: decision.group,
    decidedBy: decision.decidedBy,
    ...(decision.rule === null ? {} : { rule: decision.rule }),
    ...(refused === undefined ? {} : { refused }),
    ...(conditions.length === 0 ? {} : { conditions }),
    ...(decision.external === undefined ? {} : { external: storedAnswer(decision.external) }),
    ...(decision.cluster === null ? {} : { pinned: decision.cluster }),
    cluster,
    ...(choice === null || choice.strategy === null ? {} : { strategy: choice.strategy }),
    ...(fallback ? { fallback: true } : {}),
    ...(steps === null ? {} : { steps: steps.map(({ text }) => text) }),
    ...(attempts === null ? {} : { attempts }),
    ...(admission === null ? {} : { admission }),
    ...(queuedAs === undefined ? {} : { queuedAs }),
    ...(times === undefined ? {} : { times }),
    ...(mapping === undefined ? {} : { userMapping: mapping }),
    ...(membership === undefined ? {} : { userGroups: membership.sources.map(storedGroups) }),
    ...(request === undefined ? {} : { request }),
  } satisfies StoredDecision);
  const candidates = choice === null ? '' : `,"candidates":${choice.candidates}`;
  const rules = stored === null ? '' : `,"rules":${stored}`;
  return `${rest.slice(0, -1)}${candidates}${rules}}`;
}

function storedGroups({ source, groups, note }: Membership['sources'][number]): StoredUserGroups {
  const first = groups.slice(0, MAX_KEPT_GROUPS);
  const more = groups.length - first.length;
  return { source, groups: first, ...(more > 0 ? { more } : {}), ...(note === undefined ? {} : { note }) };
}

/** What is kept of the external rules service's answer: values of header lines may be secrets. */
function storedAnswer(answer: ExternalAnswer): StoredExternalAnswer {
  if (!('headers' in answer)) return answer;
  const { headers, ...rest } = answer;
  const set = Object.keys(headers);
  return set.length === 0 ? rest : { ...rest, setHeaders: set };
}
