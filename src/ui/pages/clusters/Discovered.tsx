import { ActionIcon, Text, Tooltip } from '@mantine/core';
import type { ReactNode } from 'react';
import type { ENGINE_CLUSTER_DISCOVERY } from '../../../kinds/engineClusterDiscovery/spec.ts';
import type { ClusterState } from '../../client/types.ts';

const kind: typeof ENGINE_CLUSTER_DISCOVERY = 'EngineClusterDiscovery';

/** Why a cluster that is made of a Service is neither edited nor deleted, and what to change instead; null for others. */
export function discoveredText({ discovery, resource }: Pick<ClusterState, 'discovery' | 'resource'>): string | null {
  if (discovery === null) return null;
  const name = `${resource === null ? '' : `${resource.namespace}/`}${discovery.name}`;
  const service = discovery.service === null ? '' : ` from the Service ${discovery.service}`;
  return `Discovered${service} by the ${kind} ${name}: change its template, or labels and annotations of the Service. Switching on and off works here.`;
}

interface RefusedActionProps {
  /** What it would do, e.g. `Delete etl-1`. */
  readonly label: string;
  readonly why: string;
  readonly children: ReactNode;
}

/** An icon for what cannot be done; says why to those who point at it, or get there by keyboard. */
export function RefusedAction({ label, why, children }: RefusedActionProps) {
  return (
    <Tooltip label={why} multiline w={280} events={{ hover: true, focus: true, touch: true }}>
      <ActionIcon
        aria-label={`${label}: not possible. ${why}`}
        aria-disabled
        data-disabled
        onClick={(event) => event.preventDefault()}
      >
        {children}
      </ActionIcon>
    </Tooltip>
  );
}

/** On the page of a cluster and beside its details: what discovers it; nothing for others. */
export function DiscoveredNote({ cluster }: { readonly cluster: ClusterState }) {
  const why = discoveredText(cluster);
  return why === null ? null : (
    <Text size="sm" role="note">
      {why}
    </Text>
  );
}
