import { Stack, Text } from '@mantine/core';
import type { QueuedQuery } from '../../client/types.ts';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { GroupName } from '../../components/namedObject.tsx';
import { Ago } from '../../components/time.tsx';
import classes from './queue.module.css';

/** Maximum number of named users of a group; for more, their count. */
const MAX_USERS = 10;

interface WaitingGroup {
  readonly name: string;
  readonly count: number;
  /** Start of the longest wait, milliseconds since 1970. */
  readonly since: number;
  readonly users: readonly (readonly [user: string, count: number])[];
}

/** Queued queries by routing group and user. @param queries oldest first */
export function QueuedGroupTable({ queries }: { readonly queries: readonly QueuedQuery[] }) {
  return (
    <DataTable
      label="Groups"
      columns={columns}
      rows={groupsOf(queries)}
      rowId={({ name }) => name}
      empty={null}
      sortedBy={{ id: 'count', desc: true }}
      sortIn="groupSort"
    />
  );
}

const columns: readonly Column<WaitingGroup>[] = [
  {
    id: 'name',
    header: 'Group',
    accessorFn: ({ name }) => name,
    cell: ({ row: { original } }) => <GroupName name={original.name} />,
  },
  { id: 'count', header: 'Waiting', accessorFn: ({ count }) => count },
  {
    id: 'since',
    header: 'Oldest since',
    accessorFn: ({ since }) => since,
    cell: ({ row: { original } }) => <Ago at={original.since} />,
  },
  {
    id: 'users',
    header: 'By user',
    enableSorting: false,
    cell: ({ row: { original } }) => <Users users={original.users} />,
  },
];

function Users({ users }: Pick<WaitingGroup, 'users'>) {
  const others = users.length - MAX_USERS;
  return (
    <Stack gap={0} className={classes.users}>
      <Text size="sm">
        {users
          .slice(0, MAX_USERS)
          .map(([user, count]) => `${user} ${count}`)
          .join(', ')}
      </Text>
      {others > 0 && (
        <Text size="xs" c="dimmed">
          and {others} others
        </Text>
      )}
    </Stack>
  );
}

function groupsOf(queries: readonly QueuedQuery[]): readonly WaitingGroup[] {
  const groups = new Map<string, { since: number; count: number; users: Map<string, number> }>();
  for (const { routingGroup, user, since } of queries) {
    const group = groups.get(routingGroup) ?? { since: Date.parse(since), count: 0, users: new Map<string, number>() };
    const name = user ?? 'unknown';
    group.count += 1;
    group.users.set(name, (group.users.get(name) ?? 0) + 1);
    groups.set(routingGroup, group);
  }
  return [...groups].map(([name, { since, count, users }]) => {
    const byCount = [...users].sort(([, one], [, other]) => other - one);
    return { name, since, count, users: byCount };
  });
}
