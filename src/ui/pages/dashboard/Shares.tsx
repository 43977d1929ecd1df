import { Anchor, Table } from '@mantine/core';
import { Link } from 'react-router';
import type { QuerySeries } from '../../client/types.ts';
import { EmptyState } from '../../components/states.tsx';
import { colorOf } from './chart.ts';
import classes from './dashboard.module.css';

const MAX_NAMED = 10;

/** Distribution of the range's queries over backends. */
export function Shares({ series: { clusters, total } }: { readonly series: QuerySeries }) {
  const named = clusters.slice(0, MAX_NAMED);
  const rest = total - named.reduce((sum, line) => sum + line.total, 0);
  if (total === 0) return <EmptyState title="No query in this time." />;
  return (
    <Table aria-label="Distribution of the queries" verticalSpacing={4}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th scope="col">Backend</Table.Th>
          <Table.Th scope="col" ta="right">
            Queries
          </Table.Th>
          <Table.Th scope="col" ta="right">
            Share
          </Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {named.map(({ cluster, color, total: queries }) => (
          <Table.Tr key={cluster}>
            <Table.Td className={classes.name}>
              <Anchor component={Link} to={`/history?cluster=${encodeURIComponent(cluster)}`} size="sm">
                {cluster}
              </Anchor>
              <div
                className={classes.bar}
                style={{ width: `${(queries / total) * 100}%`, background: colorOf(color) }}
                aria-hidden
              />
            </Table.Td>
            <Table.Td ta="right">{queries.toLocaleString('en')}</Table.Td>
            <Table.Td ta="right" className={classes.share}>
              {((queries / total) * 100).toFixed(1)} %
            </Table.Td>
          </Table.Tr>
        ))}
        {named.length < clusters.length && (
          <Table.Tr>
            <Table.Td>{clusters.length - named.length} others</Table.Td>
            <Table.Td ta="right">{rest.toLocaleString('en')}</Table.Td>
            <Table.Td ta="right" className={classes.share}>
              {((rest / total) * 100).toFixed(1)} %
            </Table.Td>
          </Table.Tr>
        )}
      </Table.Tbody>
    </Table>
  );
}
