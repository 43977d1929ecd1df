import type { LimitPolicy } from '../../src/routing/admissionPolicy.ts';

/** The limit `default/people` about everybody, with what differs. */
export function limit(more: Partial<LimitPolicy>): LimitPolicy {
  return {
    key: 'default/people',
    match: { users: null, groups: null, sources: null, routingGroups: null },
    per: 'all',
    maxRunning: null,
    maxQueued: null,
    rate: null,
    weight: 1,
    mode: 'enforce',
    message: null,
    ...more,
  };
}
