import { Badge, Group, List, Paper, Text, Title } from '@mantine/core';
import { IconGitBranch } from '@tabler/icons-react';
import type { RESOURCE_GROUP_CONFIGURATION } from '../../../kinds/resourceGroupConfiguration/spec.ts';
import type { DeclaredGroups } from '../../client/types.ts';
import { Faint, Notice } from '../../components/elements.tsx';
import { AuditLink, ManagedElsewhere, managersText } from '../../components/ownership.tsx';
import { MessageText } from '../../components/time.tsx';
import classes from './resourceGroups.module.css';

export function DeclaredBy({ declared }: { readonly declared: DeclaredGroups | null }) {
  if (declared === null) return null;
  return (
    <Group gap={6}>
      <IconGitBranch size={14} aria-hidden />
      <Faint>declared by {declaredText(declared)}</Faint>
      {troublesOf(declared).map(({ label }) => (
        <Badge key={label} variant="light" color="orange" size="sm">
          {label}
        </Badge>
      ))}
    </Group>
  );
}

/** Note in a form: the resource that declares the row, and the owners of its fields. */
export function DeclaredNote({ declared }: { readonly declared: DeclaredGroups | null }) {
  if (declared === null) return null;
  const { resource } = declared;
  // In Kubernetes the place only repeats the name.
  const place = resource?.place ?? '';
  return (
    <>
      <Faint size="sm" className={classes.breaking ?? ''}>
        Declared by the {groupsKind} {nameOf(declared)}
        {place === '' || place === `${groupsKind}/${nameOf(declared)}` ? '' : `, in ${place}`}
      </Faint>
      <ManagedElsewhere managers={resource?.managers ?? []} />
    </>
  );
}

/** The resources that declare rows, with their problems; nothing without resources. */
export function DeclaringResources({ declarations }: { readonly declarations: Declarations }) {
  if (declarations.all.length === 0) return null;
  return (
    <Paper withBorder p="sm" component="section" aria-label="Declared by resources">
      <Title order={2}>Declared by resources</Title>
      <ul className={classes.declarations}>
        {declarations.all.map((declared) => (
          <li key={`${nameOf(declared)} ${declared.environment}`}>
            <Group gap="xs">
              <Text size="sm" className={classes.breaking ?? ''}>
                {declaredText(declared)}: {contentText(declared)}
              </Text>
              <AuditLink kind={groupsKind} name={declared.name} namespace={declared.namespace} />
            </Group>
            <Troubles declared={declared} />
          </li>
        ))}
      </ul>
    </Paper>
  );
}

function Troubles({ declared }: { readonly declared: DeclaredGroups }) {
  const troubles = troublesOf(declared);
  if (troubles.length === 0) return null;
  return (
    <Notice tone="warning" title={`${declared.name} is ${troubles.map(({ label }) => label).join(', ')}`}>
      <List size="sm">
        {troubles.map(({ label, message }) => (
          <List.Item key={label} className={classes.breaking ?? ''}>
            <MessageText text={message} />
          </List.Item>
        ))}
      </List>
    </Notice>
  );
}

function contentText({ environment, resourceGroupIds, properties }: DeclaredGroups): string {
  const groups = resourceGroupIds.length === 1 ? '1 group' : `${resourceGroupIds.length} groups`;
  return `${[groups, ...properties].join(' and ')} of the environment ${environment}`;
}

export const groupsKind: typeof RESOURCE_GROUP_CONFIGURATION = 'ResourceGroupConfiguration';

export interface Declarations {
  readonly all: readonly DeclaredGroups[];
  /** The resource of a group and its selectors, or null. */
  ofGroup(resourceGroupId: number | undefined): DeclaredGroups | null;
  /** The resource of a global property, or null. */
  ofProperty(name: string): DeclaredGroups | null;
}

export function declarationsOf(all: readonly DeclaredGroups[]): Declarations {
  const ofGroup = new Map(all.flatMap((each) => each.resourceGroupIds.map((id) => [id, each] as const)));
  const ofProperty = new Map(all.flatMap((each) => each.properties.map((name) => [name, each] as const)));
  return {
    all,
    ofGroup: (id) => (id === undefined ? null : (ofGroup.get(id) ?? null)),
    ofProperty: (name) => ofProperty.get(name) ?? null,
  };
}

export const nameOf = ({ namespace, name }: DeclaredGroups): string => `${namespace}/${name}`;

function declaredText(declared: DeclaredGroups): string {
  const managers = managersText(declared.resource?.managers ?? []);
  return managers === '' ? nameOf(declared) : `${nameOf(declared)} by ${managers}`;
}

interface Trouble {
  readonly label: string;
  readonly message: string;
}

/** Problems of a resource, worst first; empty if the tables match its declaration. */
function troublesOf({ resource, drift }: DeclaredGroups): readonly Trouble[] {
  if (resource === null) return [{ label: 'deleted', message: 'The resource was deleted: its rows go with it.' }];
  const { conditions, suspended } = resource;
  const [ready, drifted] = ['Ready', 'Drift'].map((type) => conditions.find((condition) => condition.type === type));
  const troubles: Trouble[] = [];
  if (ready !== undefined && ready.status !== 'True') {
    troubles.push({ label: 'not ready', message: `${ready.reason}: ${ready.message}` });
  }
  if (drift?.repaired === false) {
    const listed = `Somebody else changed it: ${drift.differences.join('; ')}.`;
    troubles.push({ label: 'drifted', message: drifted?.status === 'True' ? drifted.message : listed });
  }
  if (suspended) troubles.push({ label: 'suspended', message: 'Nothing of it is written while it is suspended.' });
  return troubles;
}
