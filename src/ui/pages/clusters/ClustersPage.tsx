import {
  ActionIcon,
  Anchor,
  Drawer,
  Group,
  List,
  Stack,
  Text,
  TextInput,
  Title,
  Tooltip,
  UnstyledButton,
} from '@mantine/core';
import { IconExternalLink, IconInfoCircle, IconPencil, IconPlus, IconSearch, IconTrash } from '@tabler/icons-react';
import { type ReactNode, useCallback, useMemo } from 'react';
import { Link } from 'react-router';
import { useClusters } from '../../client/resources.ts';
import type { ClusterState } from '../../client/types.ts';
import { useAddressState, useOpenInAddress } from '../../components/addressState.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint, LightBadge, MainAction, To } from '../../components/elements.tsx';
import { FactList, StatusBadge } from '../../components/facts.tsx';
import { useReturnFocus } from '../../components/focus.ts';
import { EmptyState, Framed, PageFrame, RequestState } from '../../components/frame.tsx';
import { clusterAddress, GroupName } from '../../components/names.tsx';
import { Time } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';
import {
  activeColumn,
  ClusterAudit,
  Conditions,
  DiscoveredNote,
  DrainProgress,
  discoveredText,
  resourceFacts,
  sourceOf,
} from './clusterParts.tsx';
import classes from './clusters.module.css';
import { ClusterForm, OpenedForm, useDelete } from './switching.tsx';

/** Forms by address parameter: a cluster by its name, and a new one. */
const forms = ['edit', 'new'] as const;

/** Active Backends: the clusters, their state, and actions. */
export default function ClustersPage() {
  const clusters = useClusters();
  const mayCreate = useRole('ADMIN');
  const [filter, setFilter] = useAddressState('filter');
  const [details, setDetails] = useAddressState('details');
  const [opened, setOpened] = useOpenInAddress(forms);
  const close = () => setOpened(null);
  // Stable functions, so that no row is rendered again.
  const onEdit = useCallback(({ name }: ClusterState) => setOpened({ kind: 'edit', key: name }), [setOpened]);
  const onDetails = useCallback((name: string) => setDetails(name, 'push'), [setDetails]);
  const columns = useMemo(() => columnsOf({ onEdit, onDetails }), [onEdit, onDetails]);
  const find = (name: string): ClusterState | undefined => clusters.data?.find((cluster) => cluster.name === name);
  const groups = [...new Set(clusters.data?.map(({ routingGroup }) => routingGroup ?? '') ?? [])]
    .filter(Boolean)
    .sort();
  const create = (
    <MainAction label="Add a backend" icon={IconPlus} onClick={() => setOpened({ kind: 'new', key: '' })} />
  );
  const emptyTitle = (rows: readonly ClusterState[]) =>
    rows.length === 0
      ? 'There is no backend yet. Add one here, by kubectl, in a manifest, or by REST.'
      : 'No backend matches the filter.';
  return (
    <PageFrame title="Active Backends" actions={mayCreate ? create : undefined}>
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
            <Framed>
              <DataTable
                label="Backends"
                {...{ columns, rows, rowId, filter }}
                empty={emptyTitle(rows)}
                sortedBy="name"
              />
            </Framed>
          </>
        )}
      </RequestState>
      {opened?.kind === 'new' && mayCreate && (
        <ClusterForm groups={groups} cluster={null} isDeleted={false} onClose={close} />
      )}
      {opened?.kind === 'edit' && clusters.data !== undefined && (
        <OpenedForm key={opened.key} name={opened.key} cluster={find(opened.key)} groups={groups} onClose={close} />
      )}
      {details !== '' && clusters.data !== undefined && (
        <DetailsDialog key={details} name={details} cluster={find(details)} onClose={() => setDetails('')} />
      )}
    </PageFrame>
  );
}

const rowId = ({ name, resource }: ClusterState): string =>
  `${name} ${resource?.namespace ?? ''} ${resource?.name ?? ''}`;

interface Actions {
  readonly onEdit: (cluster: ClusterState) => void;
  readonly onDetails: (name: string) => void;
}

function columnsOf(actions: Actions): readonly Column<ClusterState>[] {
  return [
    { id: 'name', header: 'Name', value: ({ name }) => name, cell: (cluster) => <Name cluster={cluster} /> },
    {
      ...{ id: 'group', header: 'Routing group', value: ({ routingGroup }) => routingGroup ?? '' },
      cell: ({ routingGroup }) => (routingGroup === null ? '–' : <GroupName name={routingGroup} />),
    },
    {
      ...{ id: 'url', header: 'URL', value: ({ proxyTo }) => proxyTo ?? '' },
      cell: ({ proxyTo }) => (
        <Text size="sm" className={classes.url}>
          {proxyTo ?? '–'}
        </Text>
      ),
    },
    activeColumn,
    {
      ...{ id: 'status', header: 'Status', value: ({ status }) => status },
      cell: (cluster) => <Status cluster={cluster} onDetails={actions.onDetails} />,
    },
    count('Queued', ({ queued }) => queued),
    count('Running', ({ running }) => running),
    { id: 'actions', header: 'Actions', cell: (cluster) => <RowActions cluster={cluster} {...actions} /> },
  ];
}

function count(header: string, of: (cluster: ClusterState) => number | null): Column<ClusterState> {
  return {
    ...{ id: header.toLowerCase(), header, value: (cluster) => of(cluster) ?? -1 },
    cell: (cluster) => of(cluster) ?? <span title="The health check of this backend counts none.">–</span>,
  };
}

interface ClusterProps {
  readonly cluster: ClusterState;
}

function Name({ cluster }: ClusterProps) {
  const { name, externalUrl, proxyTo } = cluster;
  const link = externalUrl ?? proxyTo;
  return (
    <div className={classes.name}>
      <Group gap={4} wrap="nowrap">
        <Anchor component={Link} to={clusterAddress(name)} size="sm" fw={500} className={classes.source}>
          {name}
        </Anchor>
        {link !== null && (
          <Tooltip label={`The engine's page: ${link}`}>
            <ActionIcon
              {...{ component: 'a', href: link, target: '_blank', rel: 'noreferrer', size: 'sm' }}
              aria-label={`Engine's page of ${name}`}
            >
              <IconExternalLink size={14} aria-hidden />
            </ActionIcon>
          </Tooltip>
        )}
      </Group>
      <Faint className={classes.source}>{sourceOf(cluster)}</Faint>
    </div>
  );
}

function Status({ cluster, onDetails }: ClusterProps & Pick<Actions, 'onDetails'>) {
  const { name, status, reason, active, resource, routed, flappingSince } = cluster;
  const isTroubled = resource?.conditions.some((each) => each.type === 'Ready' && each.status === 'False') === true;
  return (
    <Stack gap={2} align="flex-start">
      <Group gap={4}>
        {routed ? <StatusBadge status={status} /> : <LightBadge color="red" text="Not routed" />}
        {isTroubled && routed && <LightBadge color="orange" text="Not ready" />}
      </Group>
      {flappingSince !== null && (
        <Text size="xs">
          Flapping since <Time at={Date.parse(flappingSince)} />
        </Text>
      )}
      {routed && !active && <DrainProgress cluster={cluster} others="all" />}
      {status !== 'HEALTHY' && (
        <UnstyledButton className={classes.reason} onClick={() => onDetails(name)}>
          {reason}
        </UnstyledButton>
      )}
    </Stack>
  );
}

function RowActions({ cluster, onEdit, onDetails }: Actions & ClusterProps) {
  const remove = useDelete();
  const { name, routed, mayChange } = cluster;
  const why = discoveredText(cluster);
  const [edit, bin] = [<IconPencil key="edit" size={18} aria-hidden />, <IconTrash key="bin" size={18} aria-hidden />];
  return (
    <Group gap={2} wrap="nowrap">
      <HintedAction hint="Details" name={name} onClick={() => onDetails(name)}>
        <IconInfoCircle size={18} aria-hidden />
      </HintedAction>
      {mayChange && (
        <>
          <HintedAction hint="Edit" name={name} why={why} onClick={() => onEdit(cluster)} disabled={!routed}>
            {edit}
          </HintedAction>
          <HintedAction hint="Delete" name={name} why={why} onClick={() => void remove(cluster)}>
            {bin}
          </HintedAction>
        </>
      )}
    </Group>
  );
}

interface HintedActionProps {
  readonly hint: string;
  readonly name: string;
  /** Reason that the action is unavailable; shown on hover and keyboard focus. */
  readonly why?: string | null;
  readonly disabled?: boolean;
  readonly onClick: () => void;
  readonly children: ReactNode;
}

function HintedAction({ hint, name, why = null, disabled = false, onClick, children }: HintedActionProps) {
  const label = hint === 'Details' ? `Details of ${name}` : `${hint} ${name}`;
  if (why === null)
    return (
      <Tooltip label={hint}>
        <ActionIcon aria-label={label} onClick={onClick} disabled={disabled}>
          {children}
        </ActionIcon>
      </Tooltip>
    );
  return (
    <Tooltip label={why} multiline w={280} events={{ hover: true, focus: true, touch: true }}>
      <ActionIcon aria-label={`${label}: not possible. ${why}`} aria-disabled data-disabled>
        {children}
      </ActionIcon>
    </Tooltip>
  );
}

interface DetailsDialogProps {
  readonly name: string;
  /** Undefined: it was deleted meanwhile. */
  readonly cluster: ClusterState | undefined;
  readonly onClose: () => void;
}

/** State, declaration, managers and conditions of a cluster. */
function DetailsDialog({ name, cluster, onClose }: DetailsDialogProps) {
  useReturnFocus();
  return (
    <Drawer opened onClose={onClose} title={name} position="right" size="lg">
      {cluster === undefined ? <EmptyState title="This backend was deleted." /> : <Details cluster={cluster} />}
    </Drawer>
  );
}

const origins: Readonly<Record<ClusterState['origin'], string>> = {
  kubernetes: 'Kubernetes resource',
  directory: 'file',
  database: 'REST, kept in the database',
  row: 'row of a gateway that ran before; without a resource',
};

function Details({ cluster }: ClusterProps) {
  const { proxyTo, externalUrl, routingGroup, status, reason, workers, queued, running, origin, resource } = cluster;
  const { maxRunningQueries } = cluster;
  return (
    <Stack gap="md">
      <FactList
        facts={[
          ['Status', <StatusBadge key="status" status={status} />],
          ['Last check', reason],
          ['Takes new queries', <Activation key="active" cluster={cluster} />],
          ['Queued', queued ?? 'not counted'],
          ['Running', running ?? 'not counted'],
          ['Workers', workers ?? 'not counted'],
          ['Queries at a time', maxRunningQueries ?? 'no limit of the gateway'],
          ['Routing group', routingGroup === null ? '–' : <GroupName key="group" name={routingGroup} />],
          ['URL', proxyTo ?? '–'],
          ['External URL', externalUrl ?? '–'],
          ['Declared by', origins[origin]],
        ]}
      />
      <DiscoveredNote cluster={cluster} />
      <Group gap="md">
        <To address={clusterAddress(cluster.name)}>Its page</To>
        <ClusterAudit name={cluster.name} />
      </Group>
      {resource !== null && (
        <>
          <Title order={2}>Resource</Title>
          <FactList
            facts={[
              ...resourceFacts(resource),
              ['Suspended', resource.suspended ? 'yes, by spec.suspend' : undefined],
              ['Field managers', resource.managers.length === 0 ? undefined : managersList(resource.managers)],
            ]}
          />
          <Title order={2}>Conditions</Title>
          <Conditions conditions={resource.conditions} />
        </>
      )}
    </Stack>
  );
}

function Activation({ cluster: { active, specActive, override, differs } }: ClusterProps) {
  return (
    <>
      {active ? 'yes' : 'no'}
      {override !== null && `, overridden by ${override.by}`}
      {override?.at != null && (
        <>
          {' '}
          at <Time at={Date.parse(override.at)} />
        </>
      )}
      {differs && `; the resource says ${specActive ? 'yes' : 'no'}`}
    </>
  );
}

const managersList = (managers: NonNullable<ClusterState['resource']>['managers']) => (
  <List size="sm">
    {managers.map(({ manager, fields }) => (
      <List.Item key={manager}>
        {manager}: {fields.join(', ')}
      </List.Item>
    ))}
  </List>
);
