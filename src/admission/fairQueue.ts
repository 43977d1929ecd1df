/** Result of an admission attempt: `blocked`: others may still be admitted; `full`: none can. */
export type Attempt = 'admitted' | 'blocked' | 'full';

/** Submissions of one user, or of another fairness key; first in, first out. */
interface Flow<Item> {
  readonly name: string;
  readonly items: Map<Item, number>;
  weight: number;
  credit: number;
}

/** Maximum number of blocked flows that one call of `admit` examines. */
const MAX_BLOCKED = 1_000;
const MIN_WEIGHT = 0.01;

/** A fair queue: flows take turns (deficit round robin) by weight, and each flow is first in, first out. Pure. */
export class FairQueue<Item> {
  readonly #flows = new Map<string, Flow<Item>>();
  readonly #flowOf = new Map<Item, Flow<Item>>();
  /** Items that were moved before all flows, in order. */
  #moved: Item[] = [];
  #ring: Flow<Item>[] = [];
  #at = 0;
  /** True if the flow at `#at` has not received its credit of this round. */
  #isNewTurn = true;

  get size(): number {
    return this.#flowOf.size + this.#moved.length;
  }

  /**
   * Adds an item at the end of its flow.
   * @param weight new weight of the flow; above 0
   * @param order items of a flow with a smaller number come first, to restore a position; default: the end
   */
  push(flow: string, weight: number, item: Item, order: number = Number.POSITIVE_INFINITY): void {
    let entry = this.#flows.get(flow);
    if (entry === undefined) {
      entry = { name: flow, items: new Map(), weight, credit: 0 };
      this.#flows.set(flow, entry);
      // At the end of the round.
      this.#ring.splice(this.#at, 0, entry);
      this.#at = this.#ring.length === 1 ? 0 : this.#at + 1;
    }
    entry.weight = Math.max(MIN_WEIGHT, weight);
    const later = [...(order === Number.POSITIVE_INFINITY ? [] : entry.items)].filter(([, other]) => other > order);
    for (const [one] of later) entry.items.delete(one);
    entry.items.set(item, order);
    for (const [one, place] of later) entry.items.set(one, place);
    this.#flowOf.set(item, entry);
  }

  remove(item: Item): void {
    const flow = this.#flowOf.get(item);
    if (flow === undefined) {
      const index = this.#moved.indexOf(item);
      if (index >= 0) this.#moved.splice(index, 1);
      return;
    }
    this.#flowOf.delete(item);
    flow.items.delete(item);
    if (flow.items.size === 0) this.#drop(flow);
  }

  moveFirst(item: Item): void {
    if (!this.#flowOf.has(item) && !this.#moved.includes(item)) return;
    this.remove(item);
    this.#moved.unshift(item);
  }

  /** Admits items in fair order, as long as attempts succeed. */
  admit(attempt: (item: Item) => Attempt): void {
    let blocked = 0;
    // A blocked item here does not block the others.
    for (const item of this.#moved.slice(0, MAX_BLOCKED)) {
      const came = attempt(item);
      if (came === 'full') return;
      if (came === 'admitted') this.remove(item);
    }
    while (this.#ring.length > 0 && blocked < Math.min(this.#ring.length, MAX_BLOCKED)) {
      const flow = this.#ring[this.#at] as Flow<Item>;
      if (this.#isNewTurn) flow.credit = Math.min(flow.credit, Math.max(1, flow.weight)) + flow.weight;
      this.#isNewTurn = false;
      if (flow.credit < 1) {
        this.#next();
        continue;
      }
      const item = flow.items.keys().next().value as Item;
      const came = attempt(item);
      if (came === 'full') return;
      if (came === 'blocked') {
        blocked += 1;
        this.#next();
        continue;
      }
      blocked = 0;
      flow.credit -= 1;
      this.remove(item);
      if (flow.items.size > 0 && flow.credit < 1) this.#next();
    }
  }

  /** All items by position. Takes time in proportion to their number. */
  inOrder(): readonly Item[] {
    const rounds = new Map<number, Item[]>();
    // Flows in order of their turns, so that the items of each round are sorted.
    for (let turn = 0; turn < this.#ring.length; turn++) {
      const flow = this.#ofTurn(turn);
      let ahead = 0;
      for (const item of flow.items.keys()) {
        const round = this.#roundOf(flow, ahead++);
        const others = rounds.get(round);
        if (others === undefined) rounds.set(round, [item]);
        else others.push(item);
      }
    }
    const order = [...rounds].sort(([one], [other]) => one - other);
    return [...this.#moved, ...order.flatMap(([, items]) => items)];
  }

  /** The flow at a turn of the round; 0 is the next one. */
  #ofTurn(turn: number): Flow<Item> {
    return this.#ring[(this.#at + turn) % this.#ring.length] as Flow<Item>;
  }

  /**
   * The round in which an item of a flow is admitted; 0 is the present one. @param ahead items of the flow before it
   */
  #roundOf(flow: Flow<Item>, ahead: number): number {
    const isBegun = !this.#isNewTurn && this.#ring[this.#at] === flow;
    const missing = ahead + 1 - flow.credit - (isBegun ? 0 : flow.weight);
    return missing <= 0 ? 0 : Math.ceil(missing / flow.weight);
  }

  #next(): void {
    this.#at = (this.#at + 1) % this.#ring.length;
    this.#isNewTurn = true;
  }

  #drop(flow: Flow<Item>): void {
    this.#flows.delete(flow.name);
    const index = this.#ring.indexOf(flow);
    this.#ring.splice(index, 1);
    if (index < this.#at) this.#at -= 1;
    else if (index === this.#at) this.#isNewTurn = true;
    if (this.#at >= this.#ring.length) this.#at = 0;
  }
}
