import { call } from './call.ts';
import type { RuleText } from './rules.ts';
import type { RuleImpact } from './types.ts';

/** A change of a rule that is not made yet; null: the rule is deleted. */
export interface RuleChange {
  readonly name: string;
  readonly rule: Omit<RuleText, 'name'> | null;
}

/** The change that saving a rule would make. */
export function changeOf({ name, ...rule }: RuleText): RuleChange {
  return { name, rule };
}

/** Which queries to look at. */
export interface ImpactRange {
  /** Hours back from now. */
  readonly hours: number;
  /** Empty: of all. */
  readonly user: string;
  readonly source: string;
}

/** Which queries of the history would go elsewhere. Aborting the signal ends it in the gateway as well. */
export function askImpact(
  changes: readonly RuleChange[],
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
