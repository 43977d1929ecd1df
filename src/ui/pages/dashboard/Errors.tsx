import { Table, Text } from '@mantine/core';
import type { RateSeries } from '../../client/types.ts';
import classes from './dashboard.module.css';

/** Errors of the range, most frequent first. */
export function Errors({ series: { errors }, range }: { readonly series: RateSeries; readonly range: string }) {
  if (errors.length === 0) return <Text size="sm">No query failed in {range}.</Text>;
  return (
    <Table aria-label="Errors of the range" verticalSpacing={4}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th scope="col">Error</Table.Th>
          <Table.Th scope="col" ta="right">
            Queries
          </Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {errors.map(({ state, errorName, errorType, queries }) => (
          <Table.Tr key={`${state} ${errorName} ${errorType}`}>
            <Table.Td className={classes.name}>
              {errorName ?? state}
              <Text size="xs" c="dimmed">
                {errorType === null ? state : `${state}, ${errorType}`}
              </Text>
            </Table.Td>
            <Table.Td ta="right">{queries.toLocaleString('en')}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}
