import { Button, Paper, TextInput } from '@mantine/core';
import { IconPlus, IconSearch } from '@tabler/icons-react';
import { useCallback } from 'react';
import { useClusters } from '../../client/clusters.ts';
import type { ClusterState } from '../../client/types.ts';
import { useAddressState, useOpenInAddress } from '../../components/addressState.ts';
import { PageFrame } from '../../components/PageFrame.tsx';
import { RequestState } from '../../components/QueryState.tsx';
import { useRole } from '../../session/session.ts';
import { ClusterDetailsDialog } from './ClusterDetails.tsx';
import { ClusterForm } from './ClusterForm.tsx';
import { ClusterTable } from './ClusterTable.tsx';
import { OpenedForm } from './OpenedForm.tsx';

/** Forms by address parameter: a cluster by its name, and a new one. */
const forms = ['edit', 'new'] as const;

/** Active Backends: the clusters, their state, and actions. */
export default function ClustersPage() {
  const clusters = useClusters();
  const mayWrite = useRole('ADMIN');
  const [filter, setFilter] = useAddressState('filter');
  const [details, setDetails] = useAddressState('details');
  const [opened, setOpened] = useOpenInAddress(forms);
  const close = () => setOpened(null);
  // Stable functions, so that no row is rendered again.
  const edit = useCallback(({ name }: ClusterState) => setOpened({ kind: 'edit', key: name }), [setOpened]);
  const showDetails = useCallback((name: string) => setDetails(name, 'push'), [setDetails]);
  const find = (name: string): ClusterState | undefined => clusters.data?.find((cluster) => cluster.name === name);
  const groups = [...new Set(clusters.data?.map(({ routingGroup }) => routingGroup ?? '') ?? [])]
    .filter(Boolean)
    .sort();
  const create = (
    <Button
      size="sm"
      leftSection={<IconPlus size={16} aria-hidden />}
      onClick={() => setOpened({ kind: 'new', key: '' })}
    >
      Add a backend
    </Button>
  );
  return (
    <PageFrame title="Active Backends" actions={mayWrite ? create : undefined}>
      <RequestState query={clusters} label="Loading backends">
        {(rows) => (
          <>
            <TextInput
              aria-label="Filter backends"
              placeholder="Filter by name, group or URL"
              leftSection={<IconSearch size={16} aria-hidden />}
              value={filter}
              onChange={(event) => setFilter(event.currentTarget.value)}
            />
            <Paper withBorder p="xs">
              <ClusterTable clusters={rows} filter={filter} mayWrite={mayWrite} onEdit={edit} onDetails={showDetails} />
            </Paper>
          </>
        )}
      </RequestState>
      {opened?.kind === 'new' && mayWrite && (
        <ClusterForm groups={groups} cluster={null} isDeleted={false} onClose={close} />
      )}
      {opened?.kind === 'edit' && clusters.data !== undefined && (
        <OpenedForm key={opened.key} name={opened.key} cluster={find(opened.key)} groups={groups} onClose={close} />
      )}
      {details !== '' && clusters.data !== undefined && (
        <ClusterDetailsDialog key={details} name={details} cluster={find(details)} onClose={() => setDetails('')} />
      )}
    </PageFrame>
  );
}
