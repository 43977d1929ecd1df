import { Anchor, Group, Modal, Stack, Tabs, Text } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { call } from '../../client/call.ts';
import type { ClusterState, HistoryRow, RoutedQuery } from '../../client/types.ts';
import { CopyText } from '../../components/CopyText.tsx';
import { QueryState } from '../../components/QueryState.tsx';
import { Time } from '../../components/time.tsx';
import { clusterText, engineLink } from './clusterOfRow.ts';
import { Decision } from './Decision.tsx';
import classes from './history.module.css';

interface QueryDialogProps {
  readonly row: HistoryRow;
  readonly clusters: readonly ClusterState[];
  readonly onClose: () => void;
}

/** A query whole: its text, and why it went where it went. */
export function QueryDialog({ row, clusters, onClose }: QueryDialogProps) {
  const { queryId, queryText, user, source, captureTime } = row;
  const routed = useQuery({
    queryKey: ['query', queryId],
    queryFn: ({ signal }) =>
      call<RoutedQuery>(`/api/queries/${encodeURIComponent(queryId)}`, { method: 'GET', signal }),
    staleTime: Number.POSITIVE_INFINITY,
  });
  return (
    <Modal opened onClose={onClose} title={`Query ${queryId}`} size="xl">
      <Stack gap="sm">
        <Text size="sm">
          <Time at={captureTime} />
          {' · '}
          {clusterText(row, clusters)}
          {user !== undefined && ` · ${user}`}
          {source !== undefined && ` · ${source}`}
          {' · '}
          <Anchor href={engineLink(row)} target="_blank" rel="noreferrer" size="sm" underline="always">
            the engine's page
          </Anchor>
        </Text>
        <Tabs defaultValue="sql" keepMounted={false}>
          <Tabs.List>
            <Tabs.Tab value="sql">SQL</Tabs.Tab>
            <Tabs.Tab value="decision">Why it went there</Tabs.Tab>
          </Tabs.List>
          <Tabs.Panel value="sql" pt="sm">
            <Group justify="flex-end">
              <CopyText text={queryText} what="SQL" />
            </Group>
            {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1) */}
            <section className={classes.text} tabIndex={0} aria-label="SQL">
              <pre>{queryText}</pre>
            </section>
          </Tabs.Panel>
          <Tabs.Panel value="decision" pt="sm">
            <QueryState query={routed} label="Loading the decision">
              {({ decision }) => <Decision decision={decision} />}
            </QueryState>
          </Tabs.Panel>
        </Tabs>
      </Stack>
    </Modal>
  );
}
