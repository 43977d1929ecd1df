import { ActionIcon, Badge, Group, Text } from '@mantine/core';
import { IconFilterPlus, IconFolderPlus, IconPencil, IconTrash } from '@tabler/icons-react';
import { type ComponentType, memo } from 'react';
import type { ResourceGroupView, SelectorView } from '../../client/types.ts';
import { SeenList, SeenPaper } from '../../components/WhereSeen.tsx';
import { DeclaredBy } from './DeclaredBy.tsx';
import type { Declarations } from './declarations.ts';
import classes from './resourceGroups.module.css';
import { type GroupNode, groupTree } from './tree.ts';

/** Actions on groups and selectors; absent without the right. */
export interface TreeActions {
  readonly addGroup: (parent: ResourceGroupView) => void;
  readonly editGroup: (group: ResourceGroupView) => void;
  readonly deleteGroup: (group: ResourceGroupView) => void;
  readonly addSelector: (group: ResourceGroupView) => void;
  readonly editSelector: (selector: SelectorView) => void;
  readonly deleteSelector: (selector: SelectorView) => void;
}

interface GroupTreeProps {
  readonly groups: readonly ResourceGroupView[];
  readonly selectors: readonly SelectorView[];
  readonly declarations: Declarations;
  readonly actions: TreeActions | null;
}

/** Groups as a tree, each with its selectors. Memoized, as it has many parts. */
export const ResourceGroupTree = memo(({ groups, selectors, declarations, actions }: GroupTreeProps) => {
  const ownSelectors = Map.groupBy(selectors, ({ resourceGroupId }) => resourceGroupId);
  return (
    <SeenList className={classes.tree} aria-label="Resource groups" parts={groups.length}>
      {groupTree(groups).map((node) => (
        <Node key={node.group.resourceGroupId} {...{ node, ownSelectors, declarations, actions }} />
      ))}
    </SeenList>
  );
});

interface NodeProps extends Pick<GroupTreeProps, 'declarations' | 'actions'> {
  readonly node: GroupNode;
  readonly ownSelectors: ReadonlyMap<number, readonly SelectorView[]>;
}

function Node({ node: { group, children }, ownSelectors, declarations, actions }: NodeProps) {
  const own = ownSelectors.get(group.resourceGroupId) ?? [];
  const { name } = group;
  const declared = declarations.ofGroup(group.resourceGroupId);
  return (
    <li className={classes.node}>
      <SeenPaper lines={own.length}>
        <Group justify="space-between" gap="xs">
          <Group gap="xs">
            <Text fw={500}>{name}</Text>
            <Text size="xs" c="dimmed">
              id {group.resourceGroupId}
            </Text>
          </Group>
          {actions !== null && (
            <Group gap={2} wrap="nowrap">
              <Act label={`Add a group below ${name}`} Icon={IconFolderPlus} act={() => actions.addGroup(group)} />
              <Act label={`Add a selector of ${name}`} Icon={IconFilterPlus} act={() => actions.addSelector(group)} />
              <Act label={`Edit ${name}`} Icon={IconPencil} act={() => actions.editGroup(group)} />
              <Act label={`Delete ${name}`} Icon={IconTrash} act={() => actions.deleteGroup(group)} />
            </Group>
          )}
        </Group>
        <DeclaredBy declared={declared} />
        <Group gap={6} mt={4}>
          {facts(group).map((fact) => (
            <Badge key={fact} variant="default" tt="none" fw={400}>
              {fact}
            </Badge>
          ))}
        </Group>
        {own.length > 0 && (
          <ul className={classes.selectors} aria-label={`Selectors of ${name}`}>
            {own.map((selector, index) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: selectors may be equal in all columns
              <li key={index}>
                <span>
                  {describeSelector(selector)}
                  {declared !== null && (
                    <Text span size="xs" c="dimmed">
                      {' '}
                      declared
                    </Text>
                  )}
                </span>
                {actions !== null && (
                  <Group gap={2} wrap="nowrap">
                    <Act
                      label={`Edit selector ${index + 1} of ${name}`}
                      Icon={IconPencil}
                      act={() => actions.editSelector(selector)}
                    />
                    <Act
                      label={`Delete selector ${index + 1} of ${name}`}
                      Icon={IconTrash}
                      act={() => actions.deleteSelector(selector)}
                    />
                  </Group>
                )}
              </li>
            ))}
          </ul>
        )}
      </SeenPaper>
      {children.length > 0 && (
        <ul className={classes.children} aria-label={`Groups below ${name}`}>
          {children.map((child) => (
            <Node key={child.group.resourceGroupId} node={child} {...{ ownSelectors, declarations, actions }} />
          ))}
        </ul>
      )}
    </li>
  );
}

interface ActProps {
  readonly label: string;
  readonly Icon: ComponentType<{ size: number }>;
  readonly act: () => void;
}

function Act({ label, Icon, act }: ActProps) {
  return (
    <ActionIcon aria-label={label} title={label} onClick={act}>
      <Icon size={18} aria-hidden />
    </ActionIcon>
  );
}

function facts(group: ResourceGroupView): readonly string[] {
  const { softMemoryLimit, maxQueued, hardConcurrencyLimit, softConcurrencyLimit, schedulingPolicy } = group;
  const { schedulingWeight, softCpuLimit, hardCpuLimit, jmxExport, environment } = group;
  const soft = softConcurrencyLimit === undefined ? '' : `, ${softConcurrencyLimit} softly`;
  return [
    `runs ${hardConcurrencyLimit}${soft}`,
    `queues ${maxQueued}`,
    ...optional('memory', softMemoryLimit),
    ...optional('policy', schedulingPolicy),
    ...optional('weight', schedulingWeight),
    ...optional('CPU softly', softCpuLimit),
    ...optional('CPU', hardCpuLimit),
    ...(jmxExport === true ? ['JMX'] : []),
    ...optional('environment', environment),
  ];
}

function describeSelector(selector: SelectorView): string {
  const { priority, userRegex, sourceRegex, queryType, clientTags, selectorResourceEstimate } = selector;
  const { userGroupRegex, originalUserRegex, authenticatedUserRegex } = selector;
  const conditions = [
    ...optional('user', userRegex),
    ...optional('user group', userGroupRegex),
    ...optional('original user', originalUserRegex),
    ...optional('authenticated user', authenticatedUserRegex),
    ...optional('source', sourceRegex),
    ...optional('type', queryType),
    ...optional('tags', clientTags),
    ...optional('estimate', selectorResourceEstimate),
  ];
  return `priority ${priority}: ${conditions.length === 0 ? 'every query' : conditions.join(', ')}`;
}

const optional = (name: string, value: string | number | undefined): readonly string[] =>
  value === undefined ? [] : [`${name} ${value}`];
