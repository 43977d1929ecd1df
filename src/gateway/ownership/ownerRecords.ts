import type { Clock } from '../../model/clock.ts';
import type { Store } from '../../store/store.ts';
import type { OwnerRecords } from './ownerClaims.ts';
import type { QueryOwner } from './queryOwner.ts';

export function ownerOf(row: QueryOwner): QueryOwner {
  const { cluster, proxyTo, uid } = row;
  return uid === undefined ? { cluster, proxyTo } : { cluster, proxyTo, uid };
}

/** Owners by suffix (`eg_coordinators`). */
export function coordinatorRecords(coordinators: () => Store['coordinators'], clock: Clock): OwnerRecords {
  const row = (suffix: string, owner: QueryOwner) => ({ suffix, ...ownerOf(owner), lastSeen: clock.now() });
  return {
    kind: 'suffix',
    get: async (suffix) => {
      const stored = await coordinators().get(suffix);
      return stored === null ? null : ownerOf(stored);
    },
    claim: async (suffix, owner) => ownerOf(await coordinators().learn(row(suffix, owner))),
    replace: async (suffix, from, to, silentFor) => {
      const unseenSince = silentFor === null ? null : clock.now() - silentFor;
      return ownerOf(await coordinators().replace(row(suffix, to), from.proxyTo, unseenSince));
    },
  };
}

/** Owners by full id (`eg_queries`), of ids that end in no suffix. */
export function queryRecords(queries: () => Store['queries'], clock: Clock): OwnerRecords {
  const row = (queryId: string, { cluster, proxyTo }: QueryOwner) => {
    return { queryId, cluster, proxyTo, created: clock.now() };
  };
  return {
    kind: 'queryId',
    get: async (queryId) => {
      const stored = await queries().get(queryId);
      return stored === null ? null : ownerOf(stored);
    },
    claim: async (queryId, owner) => ownerOf(await queries().learn(row(queryId, owner))),
    replace: async (queryId, from, to) => ownerOf(await queries().replace(row(queryId, to), from.proxyTo)),
  };
}
