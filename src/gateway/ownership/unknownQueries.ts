import type { Refusal } from '../../routing/refusal.ts';

export function unknownQuery(queryId: string): Refusal {
  return {
    reason: 'unknown_query',
    message: `Query ${queryId.slice(0, 256)} is not known to any cluster behind this gateway.`,
    queryId,
  };
}

/** The refusal of a request for a query of which no one can say at the moment whether a cluster knows it. */
export function undecidedQuery(queryId: string): Refusal {
  return {
    reason: 'undecided_query',
    message: `Which cluster runs query ${queryId.slice(0, 256)} is not known at the moment; ask again in a second.`,
    queryId,
  };
}

/** The refusal of a request for a query whose suffix two clusters claimed while the database was unavailable. */
export function disownedQuery(queryId: string): Refusal {
  return {
    reason: 'owner_gone',
    message: `Query ${queryId} was lost: two clusters gave out its id while the database was unavailable. Run the query again.`,
    queryId,
  };
}
