/** What a replica needs of a counter. */
export interface ReplicaDemand {
  readonly replica: string;
  readonly inUse: number;
  readonly waiting: number;
}

/**
 * How many slots of a counter one of the replicas should have: max-min fair by what they use and what waits there. What is
 * left when all of that is satisfied is split, one part more than there are replicas: that one stays free for newcomers.
 * All replicas that see the same demands come to shares whose sum is at most the limit.
 * @param demands of all replicas, the one that is asked about among them
 * @param turn a number that grows with time: slots that cannot be split go to another replica at each turn
 */
export function shareOf(replica: string, limit: number, demands: readonly ReplicaDemand[], turn: number): number {
  const inTurn = rotated(demands, turn);
  const shares = waterFill(inTurn, limit);
  const own = inTurn.findIndex((demand) => demand.replica === replica);
  const left = limit - shares.reduce((sum, share) => sum + share, 0);
  if (left <= 0) return shares[own] ?? 0;
  const split = left - Math.floor(left / (inTurn.length + 1));
  const part = Math.floor(split / inTurn.length);
  return (shares[own] ?? 0) + part + (own < split % inTurn.length ? 1 : 0);
}

function rotated(demands: readonly ReplicaDemand[], turn: number): readonly ReplicaDemand[] {
  const ordered = demands.toSorted((one, other) => (one.replica < other.replica ? -1 : 1));
  const start = turn % ordered.length;
  return [...ordered.slice(start), ...ordered.slice(0, start)];
}

/** The largest equal level that the limit can fill, below which every demand is satisfied; remainders to the first ones. */
function waterFill(demands: readonly ReplicaDemand[], limit: number): number[] {
  const wanted = demands.map(({ inUse, waiting }) => inUse + waiting);
  const shares = wanted.map(() => 0);
  let left = Math.max(0, limit);
  let open = wanted.flatMap((want, index) => (want > 0 ? [index] : []));
  while (left > 0 && open.length > 0) {
    const level = Math.floor(left / open.length);
    if (level === 0) {
      for (const index of open.slice(0, left)) shares[index] = (shares[index] as number) + 1;
      break;
    }
    for (const index of open) {
      const more = Math.min(level, (wanted[index] as number) - (shares[index] as number));
      shares[index] = (shares[index] as number) + more;
      left -= more;
    }
    open = open.filter((index) => (shares[index] as number) < (wanted[index] as number));
  }
  return shares;
}
