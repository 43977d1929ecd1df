import { Anchor, Table, Text } from '@mantine/core';
import { Link } from 'react-router';
import type { RateSeries } from '../../client/types.ts';
import { useSees } from '../../session/session.ts';
import classes from './dashboard.module.css';

/** Errors of the range, most frequent first, each with a link to its queries. */
export function Errors({ series, range }: { readonly series: RateSeries; readonly range: string }) {
  const isLinked = useSees('history');
  const { errors } = series;
  if (errors.length === 0) return <Text size="sm">No query ended with an error in {range}.</Text>;
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
              {isLinked ? (
                <Anchor
                  component={Link}
                  to={errorAddress({ state, errorName, errorType }, series.from)}
                  size="sm"
                  underline="always"
                >
                  {errorName ?? state}
                </Anchor>
              ) : (
                (errorName ?? state)
              )}
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

/** Link to the queries with an error. @param from milliseconds since 1970 */
function errorAddress(
  { state, errorName, errorType }: Pick<RateSeries['errors'][number], 'state' | 'errorName' | 'errorType'>,
  from: number,
): string {
  const parameters = new URLSearchParams({
    state,
    ...(errorName === null ? {} : { errorName }),
    ...(errorType === null ? {} : { errorType }),
    from: String(from),
  });
  return `/history?${parameters}`;
}
