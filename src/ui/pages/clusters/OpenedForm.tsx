import { useState } from 'react';
import type { ClusterState } from '../../client/types.ts';
import { NotOpened, onlyAdministrators } from '../../components/NotOpened.tsx';
import { useRole } from '../../session/session.ts';
import { ClusterForm } from './ClusterForm.tsx';
import { discoveredText } from './Discovered.tsx';

interface OpenedFormProps {
  readonly name: string;
  /** Undefined: no cluster has this name (any more). */
  readonly cluster: ClusterState | undefined;
  readonly groups: readonly string[];
  readonly onClose: () => void;
}

/** The form of the cluster in the page's address. Another name needs another component. */
export function OpenedForm({ name, cluster, groups, onClose }: OpenedFormProps) {
  const mayWrite = useRole('ADMIN');
  // The state when the form was opened: the cluster may be deleted meanwhile.
  const [begun] = useState(cluster);
  const what = `Backend ${name}`;
  if (!mayWrite) return <NotOpened what={what} why={onlyAdministrators} onClose={onClose} />;
  if (begun === undefined) return <NotOpened what={what} onClose={onClose} />;
  const why = discoveredText(begun) ?? (begun.routed ? undefined : 'It is not routed: its resource is not accepted.');
  if (why !== undefined) return <NotOpened what={what} why={why} onClose={onClose} />;
  return <ClusterForm cluster={begun} isDeleted={cluster === undefined} groups={groups} onClose={onClose} />;
}
