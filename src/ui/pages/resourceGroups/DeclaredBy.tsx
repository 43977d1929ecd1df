import { Badge, Group, List, Paper, Text, Title } from '@mantine/core';
import { IconGitBranch } from '@tabler/icons-react';
import type { DeclaredGroups } from '../../client/types.ts';
import { Faint, Notice } from '../../components/elements.tsx';
import { MessageText } from '../../components/MessageText.tsx';
import { AuditLink, ManagedElsewhere } from '../../components/ownership.tsx';
import { type Declarations, declaredText, groupsKind, nameOf, troublesOf } from './declarations.ts';
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
