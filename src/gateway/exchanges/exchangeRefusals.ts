import type { Refusal } from '../../routing/refusal.ts';

export function ownerGone(queryId: string, cluster: string, why: string): Refusal {
  return {
    reason: 'owner_gone',
    message: `Query ${queryId} was lost with its cluster${cluster === '' ? '' : ` "${cluster}"`}: ${why}. Run the query again.`,
    queryId,
  };
}

/** The refusal of a statement about a query whose cluster cannot be connected to: no other one can take it. */
export function unreachableOwner(queryId: string, cluster: string, why: string): Refusal {
  return {
    reason: 'owner_gone',
    message: `The cluster${cluster === '' ? '' : ` "${cluster}"`} of query ${queryId} cannot be reached: ${why}.`,
    queryId: null,
  };
}

/** The refusal of a request that would have to wait behind too many others. */
export function overloaded(cluster: string): Refusal {
  return {
    reason: 'overloaded',
    message: `Too many requests are waiting for cluster "${cluster}".`,
    queryId: null,
  };
}

export function answerHeadTooLarge(cluster: string, queryId: string | null): Refusal {
  const key = 'serverConfig."http-server.max-response-header-size"';
  return {
    reason: 'answer_head_too_large',
    message: `The headers of the answer of cluster "${cluster}" are larger than the gateway takes (${key}).`,
    queryId,
  };
}

/** The refusal of a statement of a transaction whose cluster is gone, where no other one can say so: Trino's words. */
export function unknownTransaction(id: string): Refusal {
  const message = `Unknown transaction ID: ${id}. Possibly expired? Commands ignored until end of transaction block`;
  return { reason: 'unknown_transaction', message, queryId: null };
}

/** The refusal of a submission whose response names a query id that its cluster may not own. */
export function foreignQueryId(queryId: string, cluster: string, conflict: 'owned' | 'tooMany'): Refusal {
  const why =
    conflict === 'owned'
      ? 'which belongs to another cluster'
      : 'of one coordinator more than a cluster may have in a short time';
  return {
    reason: 'ownership_conflict',
    message: `Cluster "${cluster}" answered with query id ${queryId}, ${why}. Its answer is refused; ask the administrator of the gateway.`,
    queryId: null,
  };
}
