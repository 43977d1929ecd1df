import { Anchor, Badge, Drawer, Group, List, Stack, Text, Title } from '@mantine/core';
import { Link } from 'react-router';
import type { ClusterState, ResourceCondition } from '../../client/types.ts';
import { AuditLink } from '../../components/AuditLink.tsx';
import { FactList } from '../../components/FactList.tsx';
import { clusterAddress } from '../../components/links.ts';
import { MessageText } from '../../components/MessageText.tsx';
import { GroupName } from '../../components/namedObject.tsx';
import { useReturnFocus } from '../../components/returnFocus.ts';
import { StatusBadge } from '../../components/StatusBadge.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import classes from './clusters.module.css';
import { DiscoveredNote } from './Discovered.tsx';

interface ClusterDetailsProps {
  readonly name: string;
  /** Undefined: it was deleted meanwhile. */
  readonly cluster: ClusterState | undefined;
  readonly onClose: () => void;
}

/** State, declaration, managers and conditions of a cluster. */
export function ClusterDetailsDialog({ name, cluster, onClose }: ClusterDetailsProps) {
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

function Details({ cluster }: { readonly cluster: ClusterState }) {
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
        <Anchor component={Link} to={clusterAddress(cluster.name)} size="sm" underline="always">
          Its page
        </Anchor>
        <ClusterAudit name={cluster.name} />
      </Group>
      {resource !== null && (
        <>
          <Title order={2}>Resource</Title>
          <FactList
            facts={[
              ['Resource', `${resource.namespace}/${resource.name}`],
              ['Place', resource.place === '' ? '–' : resource.place],
              ['Generation', resource.generation],
              ...(resource.paused ? ([['Paused', 'yes, by annotation']] as const) : []),
              ...(resource.managers.length > 0
                ? ([['Field managers', <Managers key="managers" managers={resource.managers} />]] as const)
                : []),
            ]}
          />
          <Title order={2}>Conditions</Title>
          <Conditions conditions={resource.conditions} />
        </>
      )}
    </Stack>
  );
}

function Activation({ cluster: { active, specActive, override, differs } }: { readonly cluster: ClusterState }) {
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

function Managers({ managers }: { readonly managers: NonNullable<ClusterState['resource']>['managers'] }) {
  return (
    <List size="sm">
      {managers.map(({ manager, fields }) => (
        <List.Item key={manager}>
          {manager}: {fields.join(', ')}
        </List.Item>
      ))}
    </List>
  );
}

export function Conditions({ conditions }: { readonly conditions: readonly ResourceCondition[] }) {
  if (conditions.length === 0) return <Text size="sm">None yet.</Text>;
  return (
    <ul className={classes.conditions}>
      {conditions.map((condition) => (
        <ConditionItem key={condition.type} condition={condition} />
      ))}
    </ul>
  );
}

/** Conditions with a good status of False. */
const bad = new Set(['Stalled']);

function ConditionItem({
  condition: { type, status, reason, message, lastTransitionTime },
}: {
  readonly condition: ResourceCondition;
}) {
  const good = (status === 'True') !== bad.has(type);
  const color = status === 'Unknown' ? 'yellow' : good ? 'green' : 'red';
  return (
    <li>
      <Group gap="xs">
        <Text size="sm" fw={500}>
          {type}
        </Text>
        <Badge variant="light" color={color}>
          {status}
        </Badge>
        <Text size="sm">{reason}</Text>
      </Group>
      <Text size="sm">
        <MessageText text={message} />
      </Text>
      <Text size="xs" c="dimmed">
        since <Time at={Date.parse(lastTransitionTime)} />
      </Text>
    </li>
  );
}

export function ClusterAudit({ name }: { readonly name: string }) {
  return <AuditLink kind="EngineCluster" name={name} />;
}
