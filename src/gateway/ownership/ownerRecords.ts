import type { Clock } from '../../model/clock.ts';
import type { Store } from '../../store/store.ts';
import type { OwnerRecords } from './ownerClaims.ts';
import type { QueryOwner } from './queryOwner.ts';

export function ownerOf(row: QueryOwner): QueryOwner {
  const { cluster, proxyTo, uid } = row;
  return uid === undefined ? { cluster, proxyTo } : { cluster, proxyTo, uid };
}

/** Owners by suffix (`eg_coordinators`). */
export function coordinatorRecords(store: Pick<Store, 'coordinators'>, clock: Clock): OwnerRecords {
  const row = (suffix: string, owner: QueryOwner) => ({ suffix, ...ownerOf(owner), lastSeen: clock.now() });
  return {
    kind: 'suffix',
    get: (suffix) => store.coordinators.get(suffix).then(storedOwner),
    claim: (suffix, owner) => store.coordinators.learn(row(suffix, owner)).then(ownerOf),
    replace(suffix, from, to, silentFor) {
      const unseenSince = silentFor === null ? null : clock.now() - silentFor;
      return store.coordinators.replace(row(suffix, to), from.proxyTo, unseenSince).then(ownerOf);
    },
  };
}

/** Owners by full id (`eg_queries`), of ids that end in no suffix. */
export function queryRecords(store: Pick<Store, 'queries'>, clock: Clock): OwnerRecords {
  const row = (queryId: string, { cluster, proxyTo }: QueryOwner) => {
    return { queryId, cluster, proxyTo, created: clock.now() };
  };
  return {
    kind: 'queryId',
    get: (queryId) => store.queries.get(queryId).then(storedOwner),
    claim: (queryId, owner) => store.queries.learn(row(queryId, owner)).then(ownerOf),
    replace: (queryId, from, to) => store.queries.replace(row(queryId, to), from.proxyTo).then(ownerOf),
  };
}

function storedOwner(row: QueryOwner | null): QueryOwner | null {
  return row === null ? null : ownerOf(row);
}
