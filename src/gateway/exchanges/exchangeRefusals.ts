import { type Refusal, toRefusal } from '../../routing/refusal.ts';

/** Names of follow-ups may be long; messages hold their start. */
const MAX_SHOWN_ID = 256;

function clusterText(cluster: string): string {
  return cluster === '' ? '' : ` "${cluster}"`;
}

export function ownerGone(queryId: string, cluster: string, why: string): Refusal {
  const message = `Query ${queryId} was lost with its cluster${clusterText(cluster)}: ${why}. Run the query again.`;
  return toRefusal('owner_gone', message, queryId);
}

/** The refusal of a statement about a query whose cluster cannot be connected to: no other one can take it. */
export function unreachableOwner(queryId: string, cluster: string, why: string): Refusal {
  return toRefusal('owner_gone', `The cluster${clusterText(cluster)} of query ${queryId} cannot be reached: ${why}.`);
}

/** The refusal of a request that would have to wait behind too many others. */
export function overloaded(cluster: string): Refusal {
  return toRefusal('overloaded', `Too many requests are waiting for cluster "${cluster}".`);
}

export function responseHeadTooLarge(cluster: string, queryId: string | null): Refusal {
  const key = 'serverConfig."http-server.max-response-header-size"';
  const message = `The headers of the answer of cluster "${cluster}" are larger than the gateway takes (${key}).`;
  return toRefusal('answer_head_too_large', message, queryId);
}

/** The refusal of a statement of a transaction whose cluster is gone, where no other one can say so: Trino's words. */
export function unknownTransaction(id: string): Refusal {
  const message = `Unknown transaction ID: ${id}. Possibly expired? Commands ignored until end of transaction block`;
  return toRefusal('unknown_transaction', message);
}

/** The refusal of a submission whose response names a query id that its cluster may not own. */
export function conflictingQueryId(queryId: string, cluster: string, conflict: 'owned' | 'tooMany'): Refusal {
  const why =
    conflict === 'owned'
      ? 'which belongs to another cluster'
      : 'of one coordinator more than a cluster may have in a short time';
  const message = `Cluster "${cluster}" answered with query id ${queryId}, ${why}. Its answer is refused; ask the administrator of the gateway.`;
  return toRefusal('ownership_conflict', message);
}

export function unknownQuery(queryId: string): Refusal {
  const message = `Query ${queryId.slice(0, MAX_SHOWN_ID)} is not known to any cluster behind this gateway.`;
  return toRefusal('unknown_query', message, queryId);
}

/** The refusal of a request for a query of which no one can say at the moment whether a cluster knows it. */
export function undecidedQuery(queryId: string): Refusal {
  const message = `Which cluster runs query ${queryId.slice(0, MAX_SHOWN_ID)} is not known at the moment; ask again in a second.`;
  return toRefusal('undecided_query', message, queryId);
}

/** The refusal of a request for a query whose suffix two clusters claimed while the database was unavailable. */
export function disownedQuery(queryId: string): Refusal {
  const message = `Query ${queryId} was lost: two clusters gave out its id while the database was unavailable. Run the query again.`;
  return toRefusal('owner_gone', message, queryId);
}
