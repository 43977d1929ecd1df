import type { GroupBindings } from '../../model/groupBindings.ts';
import type { LimitMatch } from '../../routing/admissionPolicy.ts';
import { PATTERN_MARK, textMatcher } from '../../rules/textMatcher.ts';
import type { QueryLimitSpec } from './spec.ts';

/** Fields of `spec.match`. */
export const matchFields = ['users', 'groups', 'sources', 'routingGroups'] as const;

type Matches = (text: string) => boolean;

/**
 * Whom a valid spec is about; where its namespace may reject queries to some routing groups only, those alone.
 * @param namespace the resource's
 */
export function limitMatch({ match = {} }: QueryLimitSpec, bindings: GroupBindings, namespace: string): LimitMatch {
  const routingGroups = matches(match.routingGroups);
  const isBound = bindings.deniable(namespace) !== 'all';
  return {
    users: matches(match.users),
    groups: matches(match.groups),
    sources: matches(match.sources),
    routingGroups: isBound
      ? (group) => routingGroups?.(group) !== false && bindings.denyRefusal(namespace, group) === null
      : routingGroups,
  };
}

/** Routing groups that a spec names, regular expressions aside. */
export function namedGroups({ match = {} }: QueryLimitSpec): readonly string[] {
  return (match.routingGroups ?? []).filter((name) => !name.startsWith(PATTERN_MARK));
}

function matches(values: readonly string[] | undefined): Matches | null {
  if (values === undefined) return null;
  const matcher = textMatcher(values);
  // The spec is valid.
  if (!('matches' in matcher)) throw new TypeError('a limit that is not valid has no matcher');
  return matcher.matches;
}
