/** How fast connections are read, and how reading stops. */
export interface PacedReadingOptions<Connection> {
  /** Work that is done in each turn of the time below; in the unit of `note`. */
  readonly workAtOnce: number;
  /** Milliseconds. */
  readonly turnMs: number;
  readonly pause: (connection: Connection) => void;
  /** Reads on; not called for connections that are destroyed. */
  readonly resume: (connection: Connection) => void;
}

/**
 * Reads connections whose bytes cost much work no faster than the work of each turn allows, so that others are served
 * meanwhile. Those that wait take turns.
 */
export class PacedReading<Connection extends { readonly destroyed: boolean }> {
  readonly #options: PacedReadingOptions<Connection>;
  /** Connections that wait, with the work of what was read of each last. */
  readonly #paused = new Map<Connection, number>();
  #work = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(options: PacedReadingOptions<Connection>) {
    this.#options = options;
  }

  /** Notes the work of what was read of a connection; pauses it where that is more than a turn has. */
  note(connection: Connection, work: number): void {
    const { workAtOnce, turnMs, pause } = this.#options;
    this.#work += work;
    this.#timer ??= setTimeout(this.#readOn, turnMs);
    if (this.#work <= workAtOnce) return;
    pause(connection);
    this.#paused.set(connection, work);
  }

  readonly #readOn = (): void => {
    const { workAtOnce, turnMs, resume } = this.#options;
    this.#timer = null;
    this.#work = 0;
    let reading = 0;
    for (const [connection, work] of this.#paused) {
      if (reading > workAtOnce) break;
      this.#paused.delete(connection);
      if (connection.destroyed) continue;
      reading += work;
      resume(connection);
    }
    if (this.#paused.size > 0) this.#timer = setTimeout(this.#readOn, turnMs);
  };
}
