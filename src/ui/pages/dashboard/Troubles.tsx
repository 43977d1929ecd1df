import { Table, Text } from '@mantine/core';
import type { Overview } from '../../client/types.ts';

/** What was refused and what failed since the start, most first. */
export function Troubles({ overview: { traffic, startedAt } }: { readonly overview: Overview }) {
  const rows = [
    ...traffic.refusals.map(({ reason, count }) => ({ what: `refused: ${words(reason)}`, count })),
    ...traffic.clusterErrors.map(({ cluster, type, count }) => ({ what: `${cluster}: ${words(type)}`, count })),
    ...traffic.retries.map(({ cluster, count }) => ({ what: `${cluster}: submission tried elsewhere`, count })),
  ].sort((a, b) => b.count - a.count);
  if (rows.length === 0) {
    return (
      <Text size="sm">None since {startedAt.slice(0, 16).replace('T', ' ')} UTC, when this gateway was started.</Text>
    );
  }
  return (
    <Table aria-label="Refusals and errors since the start" verticalSpacing={4}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th scope="col">What</Table.Th>
          <Table.Th scope="col" ta="right">
            Times
          </Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map(({ what, count }) => (
          <Table.Tr key={what}>
            <Table.Td>{what}</Table.Td>
            <Table.Td ta="right">{count.toLocaleString('en')}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

/** `noCluster`, `no_cluster` and the like as words. */
function words(name: string): string {
  return name
    .replaceAll(/([a-z])([A-Z])/g, '$1 $2')
    .replaceAll(/[_-]/g, ' ')
    .toLowerCase();
}
