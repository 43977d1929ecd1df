import { ActionIcon, Text, Tooltip } from '@mantine/core';
import type { ReactNode } from 'react';
import type { ENGINE_CLUSTER_DISCOVERY } from '../../../kinds/engineClusterDiscovery/spec.ts';
import type { ClusterState } from '../../client/types.ts';

const kind: typeof ENGINE_CLUSTER_DISCOVERY = 'EngineClusterDiscovery';

/**
 * Explains why a discovered cluster cannot be edited or deleted, and what to change instead; null for other clusters.
 */
export function discoveredText({ discovery, resource }: Pick<ClusterState, 'discovery' | 'resource'>): string | null {
  if (discovery === null) return null;
  const name = `${resource === null ? '' : `${resource.namespace}/`}${discovery.name}`;
  const service = discovery.service === null ? '' : ` from the Service ${discovery.service}`;
  return `Discovered${service} by the ${kind} ${name}: change its template, or labels and annotations of the Service. Switching on and off works here.`;
}

interface RefusedActionProps {
  /** Name of the action, e.g. `Delete etl-1`. */
  readonly label: string;
  readonly why: string;
  readonly children: ReactNode;
}

/** An icon for an unavailable action; shows the reason on hover and keyboard focus. */
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

/** Note about the discovery of a cluster, for its page and details; nothing for others. */
export function DiscoveredNote({ cluster }: { readonly cluster: ClusterState }) {
  const why = discoveredText(cluster);
  return why === null ? null : (
    <Text size="sm" role="note">
      {why}
    </Text>
  );
}
