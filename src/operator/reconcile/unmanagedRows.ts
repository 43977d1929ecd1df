import type { Logger } from 'pino';
import type { KindRegistry } from '../../kinds/kindRegistry.ts';
import type { Clock } from '../../model/clock.ts';
import type { Kind } from '../../model/resource.ts';
import { within } from '../../model/timeLimit.ts';
import type { BackendRow, SourceName, Store, StoredResource } from '../../store/store.ts';

/** What the database had at one time. */
export interface DatabaseView {
  /** Whether every kind was read, not only those that are few. */
  readonly complete: boolean;
  /** Kinds that were read. */
  readonly kinds: ReadonlySet<Kind>;
  /** Stored resources of the configured source. */
  readonly stored: readonly StoredResource[];
  /** Rows of `gateway_backend` that none of our resources stands for. */
  readonly unmanaged: readonly BackendRow[];
  readonly rows: readonly BackendRow[];
  /** How many times losses of resources were confirmed, by any replica. */
  readonly confirmations: number;
}

/**
 * Reads projection and rows. A row is unmanaged when no resource stands for it: it is of a gateway that ran before, or
 * of a resource source that was configured before.
 * @param source the configured source; rows of resources from elsewhere are not its own
 * @param only kinds to read; undefined for all
 */
async function readDatabase(
  store: Pick<Store, 'resources' | 'backends'>,
  kinds: KindRegistry,
  source: SourceName,
  only?: readonly Kind[],
): Promise<DatabaseView> {
  // Resources first: what is projected in between has its row marked as managed then.
  const read = await store.resources.all(only);
  // A later version of the gateway, which is about to replace this one, may have kinds of its own.
  const everything = read.filter((resource) => kinds.find(resource.kind) !== null);
  const all = await store.backends.all();
  const own = new Set<string>();
  const foreign = new Set<string>();
  for (const resource of everything) {
    if (kinds.of(resource.kind).rows === null) continue;
    const isOwn = source === 'database' || resource.source === source;
    (isOwn ? own : foreign).add(resource.registryName);
  }
  const rows = all.map(({ managed: _, ...row }) => row);
  const unmanaged = all
    .filter((row) => !row.managed || (foreign.has(row.name) && !own.has(row.name)))
    .map(({ managed: _, ...row }) => row);
  const confirmations = await store.resources.deletionConfirmations();
  const stored = source === 'database' ? everything : everything.filter((row) => row.source === source);
  return { complete: only === undefined, kinds: new Set(only ?? kinds.names), stored, unmanaged, rows, confirmations };
}

/** Least time between two readings of everything, in milliseconds. */
const COMPLETE_MS = 60_000;

/** Options of a watch of unmanaged rows. */
export interface RowWatchOptions {
  readonly kinds: KindRegistry;
  readonly store: Pick<Store, 'resources' | 'backends'>;
  readonly source: SourceName;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Called with each view that could be read. Must not throw. */
  readonly onView: (view: DatabaseView) => void;
  /** Called once the database answers again after it did not. Must not throw. */
  readonly onReturn: () => void;
  /** Time between looks in milliseconds: 5,000. */
  readonly pollMs?: number;
}

/** Looks at the database now and then: for unmanaged rows, and for its return after it was unavailable. */
export class RowWatch {
  readonly #options: RowWatchOptions;
  readonly #pollMs: number;
  #timer: NodeJS.Timeout | undefined;
  #turn: Promise<void> = Promise.resolve();
  #running = false;
  #away = false;
  /** Change mark at the last reading of everything, and when that was. */
  #complete: { readonly mark: string; readonly at: number } | null = null;
  #warned = false;
  /** Rows switched or deleted since the look in flight began: what `active` is now, null for deleted. */
  readonly #changed = new Map<string, boolean | null>();

  constructor(options: RowWatchOptions) {
    this.#options = options;
    this.#pollMs = options.pollMs ?? 5_000;
  }

  /** Whether the last look found the database unavailable. */
  get away(): boolean {
    return this.#away;
  }

  /**
   * To be called when a row was deleted or switched: a look in flight may have read it before.
   * @param active null for a deleted row
   */
  changed(name: string, active: boolean | null): void {
    this.#changed.set(name, active);
  }

  /** Begins looking; resolves after the first look or after the time. */
  async start(timeoutMs: number): Promise<void> {
    this.#running = true;
    this.#turn = this.#loop();
    await within(this.#turn, timeoutMs, undefined);
  }

  async stop(): Promise<void> {
    this.#running = false;
    clearTimeout(this.#timer);
    await this.#turn;
  }

  async #loop(): Promise<void> {
    await this.#look();
    if (!this.#running) return;
    this.#timer = setTimeout(() => {
      this.#turn = this.#loop();
    }, this.#pollMs);
  }

  async #look(): Promise<void> {
    this.#changed.clear();
    try {
      const read = await this.#read();
      const view = { ...read, unmanaged: read.unmanaged.flatMap((row) => this.#asChanged(row)) };
      const returned = this.#away;
      this.#away = false;
      this.#warn(view.unmanaged);
      this.#options.onView(view);
      if (returned) this.#options.onReturn();
    } catch (error) {
      if (!this.#away)
        this.#options.logger.warn({ err: error }, 'the database cannot be read; routing goes on without it');
      this.#away = true;
    }
  }

  #asChanged(row: BackendRow): readonly BackendRow[] {
    const active = this.#changed.get(row.name);
    if (active === null) return [];
    return [active === undefined ? row : { ...row, active }];
  }

  /** Kinds that are few are looked at each time; thousands of resources only now and then, and only after a change. */
  async #read(): Promise<DatabaseView> {
    const { kinds, store, source, clock } = this.#options;
    const mark = await store.resources.changeMark();
    const due = this.#away || this.#complete === null || clock.monotonic() - this.#complete.at >= COMPLETE_MS;
    if (!due || this.#complete?.mark === mark) return await readDatabase(store, kinds, source, kinds.few);
    const view = await readDatabase(store, kinds, source);
    this.#complete = { mark, at: clock.monotonic() };
    return view;
  }

  #warn(rows: readonly BackendRow[]): void {
    if (this.#warned || rows.length === 0) return;
    this.#warned = true;
    this.#options.logger.warn(
      { clusters: rows.map((row) => row.name) },
      'clusters without a resource are in the database; "engine-gateway export" prints them as manifests to apply',
    );
  }
}
