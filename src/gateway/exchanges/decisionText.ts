import type { Membership } from '../../model/membership.ts';
import type { NameMapping } from '../../model/requestUser.ts';
import type { StoredChoice } from '../../routing/candidates.ts';
import type { ChoiceStep } from '../../routing/choiceSteps.ts';
import type { ExternalResponse, GroupDecision } from '../../routing/groupDecision.ts';
import type { RefusalReason } from '../../routing/refusal.ts';
import type {
  DecisionTimes,
  FailedAttempt,
  StoredDecision,
  StoredExternalResponse,
  StoredRequest,
  StoredUserGroups,
} from '../../routing/storedDecision.ts';
import type { ReadCondition } from '../../rules/decision.ts';

/** Steps of a query to its cluster, in addition to the decision. */
export interface WayToCluster {
  readonly cluster: string;
  /** Another group served in place of the one asked for. */
  readonly fallback: boolean;
  /** Steps to this cluster; null if it belongs to the requested group. */
  readonly steps: readonly ChoiceStep[] | null;
  /** Clusters tried before; null for none. */
  readonly attempts: readonly FailedAttempt[] | null;
  /** The clusters that were there for it; left out or null if none was chosen among several. */
  readonly choice?: StoredChoice | null;
  /** Reason and duration of the wait; null without a wait. */
  readonly admission?: string | null;
  /** The gateway's own id under which it waited; left out if it did not. */
  readonly queuedAs?: string;
  /** Reason of the gateway's rejection, if any. */
  readonly refused?: RefusalReason;
  /** The condition of a rule that rejected it; left out if none did. */
  readonly conditions?: readonly ReadCondition[];
  readonly times?: DecisionTimes;
  readonly request?: StoredRequest;
  /** Groups of its user; left out if no source of groups is configured. */
  readonly membership?: Membership | undefined;
  /** Result of the user mapping; absent if the user's name is not mapped. */
  readonly mapping?: NameMapping | undefined;
}

/** A decision, or what is known of a query that was rejected before there was one. */
export type KeptDecision =
  | GroupDecision
  | (Omit<GroupDecision, 'decidedBy' | 'onUnavailable'> & Pick<StoredDecision, 'decidedBy'>);

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
    ...(decision.external === undefined ? {} : { external: storedResponse(decision.external) }),
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

/** The stored part of the external rules service's response: values of headers may be secrets. */
function storedResponse(response: ExternalResponse): StoredExternalResponse {
  if (!('headers' in response)) return response;
  const { headers, ...rest } = response;
  const set = Object.keys(headers);
  return set.length === 0 ? rest : { ...rest, setHeaders: set };
}
