/** Requests that hold no more than this are small; room is kept for them. */
export const SMALL_REQUEST_BYTES = 65_536;
/** Share of the limit that requests other than small ones may hold. */
const LARGE_SHARE = 0.75;
/** Share of the limit that requests of one connection, other than small ones, may hold. */
const CONNECTION_SHARE = 0.25;

/** What requests of one connection hold, other than small ones. */
interface ConnectionShare {
  bytes: number;
}

/**
 * The memory that bodies of requests may take in this process, all listeners together (`server.requestMemory`). Beyond it
 * the newest request whose body is still coming is refused; never one whose body is there already.
 */
export class RequestMemory {
  /** Bytes. */
  readonly limit: number;
  /** Bytes held now. */
  used = 0;
  readonly #largeLimit: number;
  readonly #connectionLimit: number;
  readonly #shares = new WeakMap<object, ConnectionShare>();
  /** Requests, other than small ones, that may still be refused. */
  readonly #refusable = new Set<HeldMemory>();

  /**
   * @param limit bytes
   * @param largest most that one request holds, bytes: each connection may hold as much, whatever its share is
   */
  constructor(limit: number, largest: number) {
    this.limit = limit;
    this.#largeLimit = limit * LARGE_SHARE;
    this.#connectionLimit = Math.max(limit * CONNECTION_SHARE, largest);
  }

  /**
   * Takes more for a request.
   * @returns false where the limit does not allow it
   */
  take(holding: HeldMemory, bytes: number): boolean {
    if (holding.bytes + bytes <= SMALL_REQUEST_BYTES) {
      if (this.used + bytes > this.limit) return false;
    } else if (!this.#takeLarge(holding, bytes)) return false;
    this.used += bytes;
    return true;
  }

  /** Gives back what a request held. */
  giveBack(holding: HeldMemory): void {
    this.used -= holding.bytes;
    if (!holding.isLarge) return;
    this.#refusable.delete(holding);
    const share = this.#shares.get(holding.connection);
    if (share !== undefined) share.bytes -= holding.bytes;
  }

  /** Never refuses a request any more. */
  keep(holding: HeldMemory): void {
    if (holding.isLarge) this.#refusable.delete(holding);
  }

  #takeLarge(holding: HeldMemory, bytes: number): boolean {
    let share = this.#shares.get(holding.connection);
    if (share === undefined) {
      share = { bytes: 0 };
      this.#shares.set(holding.connection, share);
    }
    const joining = holding.isLarge ? bytes : holding.bytes + bytes;
    if (share.bytes + joining > this.#connectionLimit) return false;
    while (this.used + bytes > this.#largeLimit) {
      const newest = this.#newestRefusable(holding);
      if (newest === holding) return false;
      newest.refuse();
    }
    if (!holding.isLarge) {
      holding.isLarge = true;
      if (holding.isRefusable) this.#refusable.add(holding);
    }
    share.bytes += joining;
    return true;
  }

  /** The newest request that may be refused; the one that asks, where that is newer than all others. */
  #newestRefusable(asking: HeldMemory): HeldMemory {
    let newest = asking;
    for (const each of this.#refusable) if (each.sequence > newest.sequence) newest = each;
    return newest;
  }
}

let lastSequence = 0;

/** What one request holds of the memory. */
export class HeldMemory {
  /** Higher for newer requests. */
  readonly sequence = ++lastSequence;
  readonly connection: object;
  readonly #memory: RequestMemory;
  bytes = 0;
  /** Whether it holds, or held, more than a small request. */
  isLarge = false;
  #onRefused: (() => void) | null = null;
  #onReleased: (() => void) | null = null;
  #released = false;

  /** @param connection that the request came on; each has its share of the memory */
  constructor(memory: RequestMemory, connection: object) {
    this.#memory = memory;
    this.connection = connection;
  }

  /** Whether it may be refused in favour of older requests. */
  get isRefusable(): boolean {
    return this.#onRefused !== null;
  }

  /**
   * Holds this many bytes in all, where it does not already.
   * @returns false where the limit does not allow it; what was held before is held still
   */
  growTo(bytes: number): boolean {
    const more = bytes - this.bytes;
    if (more <= 0) return true;
    if (this.#released || !this.#memory.take(this, more)) return false;
    this.bytes = bytes;
    return true;
  }

  /**
   * From now on it may be refused.
   * @param refused called once what it held is given back: the request has to be answered
   * @param released called once what it held is given back, whatever the reason
   */
  mayBeRefused(refused: () => void, released: (() => void) | null = null): void {
    this.#onRefused = refused;
    this.#onReleased = released;
  }

  /** From now on it is not refused any more: its body is there. */
  keep(): void {
    this.#onRefused = null;
    this.#memory.keep(this);
  }

  /** Refuses the request. */
  refuse(): void {
    const refused = this.#onRefused;
    this.keep();
    this.release();
    refused?.();
  }

  /** Gives everything back, for good. */
  readonly release = (): void => {
    if (this.#released) return;
    this.#released = true;
    this.#memory.giveBack(this);
    this.bytes = 0;
    this.#onReleased?.();
  };
}
