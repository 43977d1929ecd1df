import { Stack, Text, TextInput, Title } from '@mantine/core';
import { useQueue } from '../../client/resources.ts';
import type { QueuedQuery } from '../../client/types.ts';
import { useAddressState } from '../../components/addressState.ts';
import classes from '../../components/components.module.css';
import { type Column, DataTable } from '../../components/DataTable.tsx';
import { Faint } from '../../components/elements.tsx';
import { EmptyState, Framed, PageFrame, RequestState } from '../../components/frame.tsx';
import { GroupName } from '../../components/names.tsx';
import { Ago } from '../../components/time.tsx';
import { useRole } from '../../session/session.ts';
import { noneWaits, QueueTable, RunningTable } from './tables.tsx';

/**
 * Queue: queued queries with start and reason, which administrators can move to the front or drop; and running queries,
 * which they can end.
 */
export default function QueuePage() {
  const queue = useQueue();
  const isAdmin = useRole('ADMIN');
  const [filter, setFilter] = useAddressState('filter');
  const [runningFilter, setRunningFilter] = useAddressState('running');
  return (
    <PageFrame title="Queue">
      <RequestState query={queue} label="Loading the queue">
        {({ queries }) => {
          if (queries.length === 0) {
            return (
              <Framed>
                <EmptyState title={noneWaits(isAdmin)} />
              </Framed>
            );
          }
          const wanted = filter.trim().toLowerCase();
          const matching = queries.filter(({ id, routingGroup, user: sender, source, reason }) =>
            [id, routingGroup, sender ?? '', source ?? '', reason].some((text) => text.toLowerCase().includes(wanted)),
          );
          return (
            <>
              <Title order={2}>By group and user</Title>
              <Framed>
                <DataTable
                  label="Groups"
                  columns={columns}
                  rows={groupsOf(queries)}
                  rowId={({ name }) => name}
                  empty={null}
                  sortedBy="-count"
                  sortIn="groupSort"
                />
              </Framed>
              <Title order={2}>Queries</Title>
              <Filter label="Id, group, user, source or reason" value={filter} onChange={setFilter} />
              <Framed>
                <QueueTable queries={matching} />
              </Framed>
              <Text size="sm" role="status">
                {countText(queries.length, matching.length)}
              </Text>
            </>
          );
        }}
      </RequestState>
      <Title order={2}>Running</Title>
      <Filter label="Running id, backend, group, user or SQL" value={runningFilter} onChange={setRunningFilter} />
      <Framed>
        <RunningTable filter={runningFilter} />
      </Framed>
    </PageFrame>
  );
}

interface FilterProps {
  readonly label: string;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function Filter({ label, value, onChange }: FilterProps) {
  return <TextInput size="xs" label={label} value={value} onChange={(event) => onChange(event.currentTarget.value)} />;
}

function countText(all: number, matching: number): string {
  const total = all === 1 ? '1 query waits' : `${all.toLocaleString('en')} queries wait`;
  return matching === all ? `${total}.` : `${total}; ${matching.toLocaleString('en')} match.`;
}

/** Maximum number of named users of a group; for more, their count. */
const MAX_USERS = 10;

/** Queued queries of a routing group, by user. */
interface WaitingGroup {
  readonly name: string;
  readonly count: number;
  /** Start of the longest wait, milliseconds since 1970. */
  readonly since: number;
  readonly users: readonly (readonly [user: string, count: number])[];
}

const columns: readonly Column<WaitingGroup>[] = [
  { id: 'name', header: 'Group', value: ({ name }) => name, cell: ({ name }) => <GroupName name={name} /> },
  { id: 'count', header: 'Waiting', value: ({ count }) => count },
  { id: 'since', header: 'Oldest since', value: ({ since }) => since, cell: ({ since }) => <Ago at={since} /> },
  { id: 'users', header: 'By user', cell: ({ users }) => <Users users={users} /> },
];

function Users({ users }: Pick<WaitingGroup, 'users'>) {
  const others = users.length - MAX_USERS;
  const named = users.slice(0, MAX_USERS).map(([user, count]) => `${user} ${count}`);
  return (
    <Stack gap={0} className={classes.users}>
      <Text size="sm">{named.join(', ')}</Text>
      {others > 0 && <Faint>and {others} others</Faint>}
    </Stack>
  );
}

/** @param queries oldest first */
function groupsOf(queries: readonly QueuedQuery[]): readonly WaitingGroup[] {
  return [...Map.groupBy(queries, ({ routingGroup }) => routingGroup)].map(([name, ofGroup]) => {
    const byUser = Map.groupBy(ofGroup, ({ user }) => user ?? 'unknown');
    const users = [...byUser].map(([user, own]) => [user, own.length] as const);
    const since = Date.parse(ofGroup[0]?.since ?? '');
    return { name, since, count: ofGroup.length, users: users.sort(([, one], [, other]) => other - one) };
  });
}
