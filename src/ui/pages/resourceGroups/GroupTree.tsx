import { Badge, Group, Paper, Text } from '@mantine/core';
import { useIntersection } from '@mantine/hooks';
import { IconFilterPlus, IconFolderPlus, IconPencil, type IconProps, IconTrash } from '@tabler/icons-react';
import { type ComponentType, memo, type ReactNode, useState } from 'react';
import type { ResourceGroupView, SelectorView } from '../../client/types.ts';
import { Faint, IconAction } from '../../components/elements.tsx';
import { type Declarations, DeclaredBy } from './declarations.tsx';
import classes from './resourceGroups.module.css';

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
    <ul className={classes.tree} aria-label="Resource groups">
      {groupTree(groups).map((node) => (
        <Node
          key={node.group.resourceGroupId}
          {...{ node, ownSelectors, declarations, actions }}
          isLong={groups.length > FEW_GROUPS}
        />
      ))}
    </ul>
  );
});

interface NodeProps extends Pick<GroupTreeProps, 'declarations' | 'actions'> {
  readonly node: GroupNode;
  readonly ownSelectors: ReadonlyMap<number, readonly SelectorView[]>;
  readonly isLong: boolean;
}

/** Above this number of groups, only visible ones are rendered. */
const FEW_GROUPS = 100;

interface VisiblePaperProps extends Pick<NodeProps, 'isLong'> {
  readonly lines: number;
  readonly children: ReactNode;
}

/** A framed part of a list. In a long one it is rendered when it is first near the viewport. */
function VisiblePaper({ lines, isLong, children }: VisiblePaperProps) {
  const { ref, entry } = useIntersection({ rootMargin: '100% 0%' });
  const [isSeen, setSeen] = useState(!isLong);
  if (!isSeen && entry?.isIntersecting === true) setSeen(true);
  // About as high as the part will be.
  if (!isSeen) return <div ref={ref} style={{ height: 88 + lines * 32 }} />;
  return (
    <Paper withBorder p="xs">
      {children}
    </Paper>
  );
}

function Node({ node: { group, children }, ownSelectors, declarations, actions, isLong }: NodeProps) {
  const own = ownSelectors.get(group.resourceGroupId) ?? [];
  const { name } = group;
  const declared = declarations.ofGroup(group.resourceGroupId);
  return (
    <li className={classes.node}>
      <VisiblePaper lines={own.length} isLong={isLong}>
        <Group justify="space-between" gap="xs">
          <Group gap="xs">
            <Text fw={500}>{name}</Text>
            <Faint>id {group.resourceGroupId}</Faint>
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
      </VisiblePaper>
      {children.length > 0 && (
        <ul className={classes.children} aria-label={`Groups below ${name}`}>
          {children.map((child) => (
            <Node key={child.group.resourceGroupId} node={child} {...{ ownSelectors, declarations, actions, isLong }} />
          ))}
        </ul>
      )}
    </li>
  );
}

interface ActProps {
  readonly label: string;
  readonly Icon: ComponentType<IconProps>;
  readonly act: () => void;
}

const Act = ({ label, Icon, act }: ActProps) => <IconAction label={label} hint={label} icon={Icon} onClick={act} />;

function facts(group: ResourceGroupView): readonly string[] {
  const { hardConcurrencyLimit, softConcurrencyLimit, maxQueued } = group;
  const soft = softConcurrencyLimit === undefined ? '' : `, ${softConcurrencyLimit} softly`;
  return [
    `runs ${hardConcurrencyLimit}${soft}`,
    `queues ${maxQueued}`,
    ...optional('memory', group.softMemoryLimit),
    ...optional('policy', group.schedulingPolicy),
    ...optional('weight', group.schedulingWeight),
    ...optional('CPU softly', group.softCpuLimit),
    ...optional('CPU', group.hardCpuLimit),
    ...(group.jmxExport === true ? ['JMX'] : []),
    ...optional('environment', group.environment),
  ];
}

function describeSelector(selector: SelectorView): string {
  const conditions = [
    ...optional('user', selector.userRegex),
    ...optional('user group', selector.userGroupRegex),
    ...optional('original user', selector.originalUserRegex),
    ...optional('authenticated user', selector.authenticatedUserRegex),
    ...optional('source', selector.sourceRegex),
    ...optional('type', selector.queryType),
    ...optional('tags', selector.clientTags),
    ...optional('estimate', selector.selectorResourceEstimate),
  ];
  return `priority ${selector.priority}: ${conditions.length === 0 ? 'every query' : conditions.join(', ')}`;
}

const optional = (name: string, value: string | number | undefined): readonly string[] =>
  value === undefined ? [] : [`${name} ${value}`];

interface GroupNode {
  readonly group: ResourceGroupView;
  readonly children: readonly GroupNode[];
}

/** Groups as trees by name; a group with a missing parent or in a cycle stands at the top. */
function groupTree(groups: readonly ResourceGroupView[]): readonly GroupNode[] {
  const byParent = new Map<number | null, ResourceGroupView[]>();
  const ids = new Set(groups.map(({ resourceGroupId }) => resourceGroupId));
  for (const group of [...groups].sort((a, b) => a.name.localeCompare(b.name))) {
    const parent = group.parent !== undefined && ids.has(group.parent) ? group.parent : null;
    byParent.set(parent, [...(byParent.get(parent) ?? []), group]);
  }
  const placed = new Set<number>();
  const nodeOf = (group: ResourceGroupView): GroupNode => {
    placed.add(group.resourceGroupId);
    const below = byParent.get(group.resourceGroupId) ?? [];
    return { group, children: below.filter(({ resourceGroupId }) => !placed.has(resourceGroupId)).map(nodeOf) };
  };
  const roots = (byParent.get(null) ?? []).map(nodeOf);
  const circles = groups.flatMap((group) => (placed.has(group.resourceGroupId) ? [] : [nodeOf(group)]));
  return [...roots, ...circles];
}

export function descendants(groups: readonly ResourceGroupView[], id: number): ReadonlySet<number> {
  const ids = new Set<number>();
  const look = (parent: number): void => {
    for (const group of groups) {
      if (group.parent !== parent || ids.has(group.resourceGroupId)) continue;
      ids.add(group.resourceGroupId);
      look(group.resourceGroupId);
    }
  };
  look(id);
  return ids;
}
