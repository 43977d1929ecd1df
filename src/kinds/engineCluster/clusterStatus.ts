import { type ConditionStatus, conditionsAt } from '../../model/condition.ts';
import type { ClusterEntry } from '../../routing/routingTable.ts';
import { ready, stalled } from '../acceptance.ts';
import type { CredentialsFinding, ForwardedHeadersFinding } from '../dataPlaneFindings.ts';
import { observedGeneration, pausedCondition } from '../paused.ts';
import type { StatusDraft, StatusView, Stored } from '../status.ts';
import { specActive } from './activeOverride.ts';
import type { ClusterOutcome } from './clusterOutcome.ts';

/** The status of a cluster by the routing table and what the data plane found. */
export function clusterStatusIn(outcome: ClusterOutcome, { stored, table, findings }: StatusView): StatusDraft {
  const { registryName, routable } = outcome;
  const entry = routable === null ? null : (table.clusters.get(registryName) ?? null);
  const credentials = findings.credentials(registryName);
  return clusterStatus(outcome, entry, stored, findings.forwardedHeaders(outcome), credentials);
}

/** Last step of a reconcile of a cluster: what to say about it. Pure. */
export function clusterStatus(
  outcome: ClusterOutcome,
  entry: ClusterEntry | null,
  stored: Stored,
  forwardedHeaders: ForwardedHeadersFinding | null,
  credentials: CredentialsFinding | null = null,
): StatusDraft {
  const generation = observedGeneration(outcome);
  const condition = conditionsAt(generation);
  const { acceptance, routable } = outcome;
  return {
    observedGeneration: generation,
    fields: routable === null ? {} : { active: routable.active, proxyTo: routable.proxyTo },
    conditions: [
      condition('Accepted', acceptance.status, acceptance.reason, acceptance.message),
      condition('Healthy', ...healthy(entry)),
      condition('Active', ...active(outcome)),
      condition('ForwardedHeaders', ...forwarded(forwardedHeaders)),
      condition('Ready', ...ready(acceptance, stored)),
      ...(credentials === null
        ? []
        : [condition('HealthCredentials', 'False', credentials.reason, credentials.message)]),
      ...stalled(acceptance, condition),
      ...(outcome.paused ? [pausedCondition(outcome)] : []),
    ],
  };
}

type ConditionValue = readonly [status: ConditionStatus, reason: string, message: string];

function healthy(entry: ClusterEntry | null): ConditionValue {
  switch (entry?.health.status) {
    case undefined:
      return ['Unknown', 'NotRouted', 'the cluster is not in the routing table'];
    case 'HEALTHY':
      return ['True', 'Healthy', 'the last health check was good'];
    case 'UNHEALTHY':
      return ['False', 'Unhealthy', entry?.health.reason ?? ''];
    default:
      return ['Unknown', 'Pending', entry?.health.reason ?? ''];
  }
}

function active({ resource, override }: ClusterOutcome): ConditionValue {
  const specified = specActive(resource);
  const status = (value: boolean): ConditionStatus => (value ? 'True' : 'False');
  if (override.kind === 'inForce') {
    const { active: value, by, at } = override.override;
    const when = at === null ? '' : ` at ${at}`;
    const word = value ? 'activated' : 'deactivated';
    return [status(value), 'Overridden', `${word} by ${by}${when}; spec.active is ${specified}`];
  }
  const note = override.kind === 'unreadable' ? `; ${override.message}` : '';
  return [status(specified), 'AsSpecified', `spec.active is ${specified}${note}`];
}

function forwarded(finding: ForwardedHeadersFinding | null): ConditionValue {
  if (finding === null) return ['Unknown', 'NotObserved', 'no query has been seen yet'];
  return finding.ok ? ['True', 'Honoured', finding.message] : ['False', 'NotHonoured', finding.message];
}
