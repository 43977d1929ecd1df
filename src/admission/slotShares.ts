export interface ReplicaDemand {
  readonly replica: string;
  readonly inUse: number;
  readonly waiting: number;
}

/**
 * Computes a replica's share of a counter's slots: max-min fair by usage and waiters. The remainder is split into one
 * part more than there are replicas: that part stays free for new replicas. All replicas with the same demands compute
 * shares whose sum is at most the limit.
 * @param demands of all replicas, including this one
 * @param turn a number that grows with time: indivisible slots go to another replica at each turn
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

/** The largest equal level within the limit, below which every demand is satisfied; remainders go to the first ones. */
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
