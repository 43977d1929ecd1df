import { call } from './call.ts';
import type { RuleInput } from './rules.ts';
import type { RuleImpact } from './types.ts';

/** An unsaved change of a rule; null deletes the rule. */
export interface PlannedChange {
  readonly name: string;
  readonly rule: Omit<RuleInput, 'name'> | null;
}

export function changeOf({ name, ...rule }: RuleInput): PlannedChange {
  return { name, rule };
}

export interface ImpactRange {
  readonly hours: number;
  /** Empty: all users. */
  readonly user: string;
  readonly source: string;
}

/**
 * Lists queries of the history that would be routed differently. Aborting the signal ends the computation in the
 * gateway too.
 */
export function askImpact(
  changes: readonly PlannedChange[],
  { hours, user, source }: ImpactRange,
  signal: AbortSignal,
): Promise<RuleImpact> {
  const body = {
    from: new Date(Date.now() - hours * 3_600_000).toISOString(),
    changes,
    ...(user === '' ? {} : { user }),
    ...(source === '' ? {} : { source }),
  };
  return call<RuleImpact>('/api/rules/impact', { body, signal });
}
