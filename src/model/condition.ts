/** Status of a condition (Kubernetes API conventions: typical status properties). */
export type ConditionStatus = 'True' | 'False' | 'Unknown';

/** A condition of a resource's status, as metav1.Condition. */
export interface Condition {
  readonly type: string;
  readonly status: ConditionStatus;
  /** CamelCase word for programs. */
  readonly reason: string;
  /** Sentence for users: the state, and the action to take. At most 32,768 characters. */
  readonly message: string;
  readonly observedGeneration?: number;
  /** RFC 3339; changes only when `status` changes. */
  readonly lastTransitionTime: string;
}

export type ConditionDraft = Omit<Condition, 'lastTransitionTime'>;

export function conditionsAt(observedGeneration: number) {
  return (type: string, status: ConditionStatus, reason: string, message: string): ConditionDraft => ({
    type,
    status,
    reason,
    message,
    observedGeneration,
  });
}

/**
 * Merges drafts into existing conditions: equal status keeps its transition time; types without a draft are kept.
 * @param nowIso RFC 3339 time for transitions
 */
export function mergeConditions(
  existing: readonly Condition[],
  drafts: readonly ConditionDraft[],
  nowIso: string,
): readonly Condition[] {
  const byType = new Map(existing.map((condition) => [condition.type, condition]));
  for (const draft of drafts) {
    const before = byType.get(draft.type);
    byType.set(draft.type, {
      ...draft,
      lastTransitionTime: before?.status === draft.status ? before.lastTransitionTime : nowIso,
    });
  }
  return [...byType.values()];
}
