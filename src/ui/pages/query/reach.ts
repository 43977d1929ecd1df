import type { WholeQuery } from '../../client/types.ts';

/**
 * Progress of a query: received by a cluster, queued, ended in the queue (`dropped`), or rejected by the gateway or a
 * rule.
 */
export type Reach = 'taken' | 'waiting' | 'dropped' | 'refused' | 'denied';

export function reachOf({ cluster, backendUrl, outcome }: WholeQuery): Reach {
  if (outcome?.state === 'REFUSED') return 'refused';
  if (outcome?.state === 'DENIED') return 'denied';
  // Queries of Trino Gateway have no cluster name, only its URL.
  if (cluster !== '' || backendUrl !== '') return 'taken';
  return outcome == null ? 'waiting' : 'dropped';
}

/** Describes the end of a query without a cluster, with the client's error; empty for others. */
export function endText(query: WholeQuery): string {
  const { cluster, outcome } = query;
  const because = outcome?.errorMessage == null ? '.' : `: ${outcome.errorMessage.replace(/\.?$/, '.')}`;
  switch (reachOf(query)) {
    case 'refused':
      return cluster === ''
        ? `No backend took the query, as the gateway refused it${because}`
        : `${cluster} was chosen, but the gateway refused the query, or the backend's answer to it${because}`;
    case 'denied':
      return `No backend got the query${because}`;
    case 'dropped':
      return `No backend took the query, as it ended while it waited${because}`;
    case 'taken':
    case 'waiting':
      return '';
  }
}

export function noText(query: WholeQuery): string {
  return reachOf(query) === 'waiting' ? 'The text is kept once a cluster has the query.' : 'No text of it is stored.';
}
