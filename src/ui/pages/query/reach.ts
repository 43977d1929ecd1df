import type { WholeQuery } from '../../client/types.ts';

/**
 * How far a query came: a cluster took it, it waits for one, it ended while it waited (`dropped`), or the gateway or a rule
 * turned it down.
 */
export type Reach = 'taken' | 'waiting' | 'dropped' | 'refused' | 'denied';

/** How far a query came. */
export function reachOf({ cluster, backendUrl, outcome }: WholeQuery): Reach {
  if (outcome?.state === 'REFUSED') return 'refused';
  if (outcome?.state === 'DENIED') return 'denied';
  // Queries of a gateway that ran before have no cluster's name, only its URL.
  if (cluster !== '' || backendUrl !== '') return 'taken';
  return outcome == null ? 'waiting' : 'dropped';
}

/** What ended a query that no cluster took, in a sentence with the reason that its client got; empty for others. */
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

/** Why there is no text of a query. */
export function noText(query: WholeQuery): string {
  return reachOf(query) === 'waiting' ? 'The text is kept once a cluster has the query.' : 'No text of it is stored.';
}
