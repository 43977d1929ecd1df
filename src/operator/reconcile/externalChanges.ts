import type { Logger } from 'pino';
import type { Findings } from '../../kinds/outcome.ts';
import type { Clock } from '../../model/clock.ts';
import { keyTextOf, type Resource } from '../../model/resource.ts';
import type { FieldChange } from '../../store/externalRow.ts';
import type { OperatorMetrics } from './metrics.ts';

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
