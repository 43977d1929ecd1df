import type { Admission } from '../../gateway/admission/admission.ts';
import { AdmissionChain } from '../../gateway/admission/admissionChain.ts';
import { ClusterWait } from '../../gateway/admission/clusterWait.ts';
import { QueueMetrics } from '../../gateway/admission/queueMetrics.ts';
import type { GatewayContext } from './context.ts';
import type { Control } from './control.ts';

/** When submissions are sent on, and how many wait for that. */
export interface AdmissionParts {
  readonly admission: Admission;
  readonly queue: Pick<QueueMetrics, 'waiting'>;
}

/** Makes what submissions wait for, in this order. */
export function openAdmission({ metrics, clock, current }: GatewayContext, { table }: Control): AdmissionParts {
  const clusterWait = new ClusterWait({ table, defaultGroup: () => current().routing.defaultRoutingGroup });
  const queue = new QueueMetrics({ registry: metrics, table, clock });
  return { admission: queue.measured(new AdmissionChain([clusterWait])), queue };
}
