import { Badge, Group, Text } from '@mantine/core';
import type { ClusterDetails } from '../../client/types.ts';
import { formatElapsed } from '../../components/amounts.ts';
import { StatusBadge } from '../../components/StatusBadge.tsx';
import { Ago, Time } from '../../components/time.tsx';
import classes from './clusterPage.module.css';

/** The last states of a cluster, newest first, each with its reason and duration. */
export function HealthTimeline({ cluster: { changes, replica } }: { readonly cluster: ClusterDetails }) {
  if (changes.length === 0) return <Text size="sm">Nothing is checked while it is not routed.</Text>;
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard (WCAG 2.1.1) */}
      <section className={classes.scrolling} tabIndex={0} aria-label="Health timeline">
        <ol className={classes.timeline}>
          {changes.map(({ since, status, reason, active }, index) => {
            const begun = Date.parse(since);
            const before = changes[index + 1];
            const next = changes[index - 1];
            return (
              <li key={`${since} ${status} ${active}`}>
                <Group gap="xs">
                  <StatusBadge status={status} />
                  {!active && <Badge variant="default">{before?.active === true ? 'switched off' : 'off'}</Badge>}
                  {active && before?.active === false && <Badge variant="default">switched on</Badge>}
                  <Text size="xs" c="dimmed">
                    {next === undefined ? (
                      <>
                        since <Time at={begun} />, <Ago at={begun} />
                      </>
                    ) : (
                      <>
                        <Time at={begun} />, for {formatElapsed(Math.max(0, Date.parse(next.since) - begun))}
                      </>
                    )}
                  </Text>
                </Group>
                <Text size="sm" className={classes.breaking}>
                  {reason}
                </Text>
              </li>
            );
          })}
        </ol>
      </section>
      <Text size="xs" c="dimmed" mt="xs" className={classes.breaking}>
        As the replica {replica} saw it, since it was started: at most 50 states. Each replica checks for itself.
      </Text>
    </>
  );
}
