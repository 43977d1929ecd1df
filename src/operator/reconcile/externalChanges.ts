import type { Logger } from 'pino';
import type { Clock } from '../../model/clock.ts';
import { type ConditionDraft, conditionsAt } from '../../model/condition.ts';
import { keyTextOf, type Resource } from '../../model/resource.ts';
import type { FieldChange } from '../../store/externalRow.ts';
import type { OperatorMetrics } from './metrics.ts';

/** How long the condition `Drift` is shown at most, in milliseconds. */
const SHOWN_MS = 24 * 3_600_000;

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

/** Reports changes that other programs make to rows of clusters: log, metric and, of those overwritten, the condition `Drift`. */
export class ExternalChanges {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #metrics: Pick<OperatorMetrics, 'foreignWrites'>;
  /** The last change that was overwritten, by `keyText`. */
  readonly #overruled = new Map<
    string,
    { readonly message: string; readonly generation: number; readonly at: number }
  >();

  constructor(clock: Clock, logger: Logger, metrics: Pick<OperatorMetrics, 'foreignWrites'>) {
    this.#clock = clock;
    this.#logger = logger;
    this.#metrics = metrics;
  }

  report(change: ExternalChange): void {
    const { resource, cluster, outcome, fields } = change;
    const key = keyTextOf(resource);
    const facts = { key, cluster, deleted: fields.length === 0, fields };
    this.#metrics.foreignWrites.inc({ outcome });
    if (outcome === 'adopted') {
      this.#logger.info(facts, 'external change of gateway_backend adopted');
      return;
    }
    this.#logger.warn({ ...facts, outcome }, 'external change of gateway_backend overwritten');
    const { generation } = resource.metadata;
    this.#overruled.set(key, { message: changeText(fields), generation, at: this.#clock.monotonic() });
  }

  /** The condition `Drift` of a resource, until it is changed or a day has passed; null: nothing was overwritten. */
  condition(key: string, { metadata: { generation } }: Resource): ConditionDraft | null {
    const change = this.#overruled.get(key);
    if (change === undefined) return null;
    if (change.generation === generation && this.#clock.monotonic() - change.at < SHOWN_MS)
      return conditionsAt(generation)('Drift', 'True', 'ForeignWriteOverruled', change.message);
    this.#overruled.delete(key);
    return null;
  }

  /** Keys of resources of which the condition is over and may still be shown. */
  get over(): readonly string[] {
    const before = this.#clock.monotonic() - SHOWN_MS;
    return [...this.#overruled].filter(([, { at }]) => at <= before).map(([key]) => key);
  }

  /** @param key of a resource that was deleted, as `keyText` has it */
  forget(key: string): void {
    this.#overruled.delete(key);
  }
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
