import type { Logger } from 'pino';
import type { Findings } from '../../kinds/outcome.ts';
import type { Clock } from '../../model/clock.ts';
import { keyTextOf, type Resource } from '../../model/resource.ts';
import { within } from '../../model/timeLimit.ts';
import type { FieldChange } from '../../store/externalRow.ts';
import type { BackendRow, StoredResource } from '../../store/store.ts';
import type { ControllerContext } from './controller.ts';
import type { OperatorMetrics } from './metrics.ts';

export interface DatabaseView {
  /** Stored resources of the configured source; null after the first look. */
  readonly stored: readonly StoredResource[] | null;
  readonly rows: readonly BackendRow[];
  /**
   * Rows that no resource of the configured source stands for: those of a gateway that ran before, or of a source that was
   * configured before.
   */
  readonly unmanaged: readonly BackendRow[];
  /** How many times losses of resources were confirmed, by any replica. */
  readonly confirmations: number;
  /** True if the database could not be read before. */
  readonly hasReturned: boolean;
}

/** Looks at the database now and then: for unmanaged rows, and for its return after it was unavailable. */
export class RowWatch {
  readonly #options: ControllerContext;
  readonly #onView: (view: DatabaseView) => void;
  #timer: NodeJS.Timeout | undefined;
  #turn: Promise<void> = Promise.resolve();
  #running = false;
  /** True if the last poll found the database unavailable. */
  away = false;
  /** Whether the stored resources were read. */
  #isRead = false;
  #warned = false;
  /** True if a row was switched or deleted since the look in flight began, which may have read it before. */
  isStale = false;

  /** @param onView called with each view that could be read; must not throw */
  constructor(options: ControllerContext, onView: (view: DatabaseView) => void) {
    this.#options = options;
    this.#onView = onView;
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
    await this.#sweep();
    if (!this.#running) return;
    this.#timer = setTimeout(() => {
      this.#turn = this.#loop();
    }, this.#options.rowPollMs ?? 5_000);
  }

  async #sweep(): Promise<void> {
    this.isStale = false;
    try {
      const view = await this.#read();
      if (this.isStale) return;
      this.#isRead = true;
      const hasReturned = this.away;
      this.away = false;
      this.#warn(view.unmanaged);
      this.#onView({ ...view, hasReturned });
    } catch (error) {
      if (!this.away)
        this.#options.logger.warn({ err: error }, 'failed to read the database; routing continues without it');
      this.away = true;
    }
  }

  async #read(): Promise<Omit<DatabaseView, 'hasReturned'>> {
    const { kinds, store } = this.#options;
    const source = this.#options.source.name;
    // Resources first: what is stored in between has its row marked as managed then.
    const read = this.#isRead ? null : await store.resources.all();
    const all = await store.backends.all(source === 'database' ? undefined : source);
    const confirmations = await store.resources.deletionConfirmations();
    // A later version of the gateway, which is about to replace this one, may have kinds of its own.
    const ofKinds = read?.filter((stored) => kinds.find(stored.kind) !== null) ?? null;
    const stored = source === 'database' ? ofKinds : (ofKinds?.filter((each) => each.source === source) ?? null);
    const rows = all.map(({ managed: _, ...row }) => row);
    const unmanaged = all.filter(({ managed }) => !managed).map(({ managed: _, ...row }) => row);
    return { stored, rows, unmanaged, confirmations };
  }

  #warn(rows: readonly BackendRow[]): void {
    if (this.#warned || rows.length === 0) return;
    this.#warned = true;
    this.#options.logger.warn(
      { clusters: rows.map((row) => row.name) },
      'database has clusters without a resource; "engine-gateway export" prints their manifests',
    );
  }
}

/** A change that another program made to the row of a cluster in `gateway_backend`. */
export interface ExternalChange {
  /** Of the cluster, as it is afterwards. */
  readonly resource: Resource;
  /** Registry name. */
  readonly cluster: string;
  /** Taken over into the resource (`source: database`), or overwritten as the resource is the truth. */
  readonly outcome: 'adopted' | 'overruled';
  /** Empty: the row was deleted. */
  readonly fields: readonly FieldChange[];
}

/** Reports a change. Must not throw. */
export type ExternalChangeReport = (change: ExternalChange) => void;

/** Reports changes that other programs make to rows of clusters: log, metric and, of those overwritten, the condition `Drift`. */
export function externalChangeReport(
  findings: Findings,
  clock: Clock,
  logger: Logger,
  metrics: Pick<OperatorMetrics, 'foreignWrites'>,
): ExternalChangeReport {
  return ({ resource, cluster, outcome, fields }) => {
    const key = keyTextOf(resource);
    const facts = { key, cluster, deleted: fields.length === 0, fields };
    metrics.foreignWrites.inc({ outcome });
    if (outcome === 'adopted') {
      logger.info(facts, 'external change of gateway_backend adopted');
      return;
    }
    logger.warn({ ...facts, outcome }, 'external change of gateway_backend overwritten');
    const { generation } = resource.metadata;
    findings.note(key, { overruled: { message: changeText(fields), generation, at: clock.monotonic() } });
  };
}

function changeText(fields: readonly FieldChange[]): string {
  const values = fields.map(
    ({ field, row, resource }) => `${field} ${JSON.stringify(row)} (the resource: ${JSON.stringify(resource)})`,
  );
  const what =
    fields.length === 0
      ? 'another gateway deleted the row of gateway_backend'
      : `another gateway wrote into gateway_backend ${values.join(', ')}`;
  return `${what}; put back: the resource is the truth; make the change there, or by the REST API of this gateway`;
}
