import { Text } from '@mantine/core';
import type { QueryDecision } from '../../client/types.ts';
import { ClusterName } from '../../components/namedObject.tsx';
import classes from './query.module.css';

type Candidate = NonNullable<QueryDecision['candidates']>[number];

/** Candidate clusters of a query when it was routed, and the reason for the choice. */
export function Candidates({
  candidates,
  group,
}: {
  readonly candidates: readonly Candidate[];
  readonly group: string;
}) {
  return (
    <div>
      <Text size="sm" fw={500}>
        Clusters considered then
      </Text>
      <ul className={classes.clusters} aria-label="Clusters considered then">
        {candidates.map((candidate) => (
          <li key={candidate.cluster}>
            <ClusterName name={candidate.cluster} />: {candidateText(candidate, group)}
          </li>
        ))}
      </ul>
    </div>
  );
}

function candidateText({ routingGroup, taken, chosen, reason, queued, running }: Candidate, group: string): string {
  const part = chosen ? 'chosen' : taken ? 'could have taken it' : 'could not take it';
  const counts = [
    ...(queued === undefined ? [] : [`${queued} queued`]),
    ...(running === undefined ? [] : [`${running} running by its last check`]),
  ];
  return [part, ...(routingGroup === group ? [] : [`of ${routingGroup}`]), reason, ...counts].join(', ');
}
