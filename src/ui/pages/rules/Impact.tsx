import { Accordion, Alert, Button, Group, NativeSelect, Paper, Stack, Text, TextInput, Title } from '@mantine/core';
import { useForm } from '@mantine/form';
import { IconArrowsSplit2 } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { useEffect, useId, useRef } from 'react';
import { messageOf } from '../../client/apiError.ts';
import { call } from '../../client/call.ts';
import type { RuleImpact, RuleInput } from '../../client/types.ts';
import { Faint, Notice, PlainTable, Strong } from '../../components/elements.tsx';
import { TraceList } from '../../components/RuleTrace.tsx';
import { Time } from '../../components/time.tsx';
import classes from './Impact.module.css';

interface ImpactProps {
  /** The rule in the form; called when the button is pressed. */
  readonly draft: () => RuleInput;
}

const ranges = [
  { value: '1', label: 'Last hour' },
  { value: '24', label: 'Last 24 hours' },
  { value: '168', label: 'Last 7 days' },
  { value: '720', label: 'Last 30 days' },
];

/** Shows past queries that a rule change would route differently. Changes nothing. */
export function Impact({ draft }: ImpactProps) {
  const form = useForm({ initialValues: { hours: '24', user: '', source: '' } });
  const heading = useId();
  const answer = useRef<HTMLDivElement>(null);
  const running = useRef<AbortController | null>(null);
  const impact = useMutation({
    mutationFn: () => {
      running.current = new AbortController();
      const { name, ...rule } = draft();
      const { hours, ...by } = form.getValues();
      const filters = Object.entries(by).map(([field, text]) => [field, text.trim()] as const);
      const body = {
        from: new Date(Date.now() - Number(hours) * 3_600_000).toISOString(),
        changes: [{ name, rule }],
        ...Object.fromEntries(filters.filter(([, text]) => text !== '')),
      };
      // Aborting it ends the computation in the gateway too.
      return call<RuleImpact>('/api/rules/impact', { body, signal: running.current.signal });
    },
  });
  const stop = () => running.current?.abort();
  // A gateway computes one at a time: an abandoned computation must not block others.
  useEffect(() => () => running.current?.abort(), []);
  // In a dialog it is below the visible part.
  useEffect(() => {
    if (impact.isSuccess || impact.isError) answer.current?.scrollIntoView({ block: 'nearest' });
  }, [impact.isSuccess, impact.isError]);
  const isStopped = impact.isError && running.current?.signal.aborted === true;
  return (
    <Paper withBorder p="sm" component="section" aria-labelledby={heading}>
      <Stack gap="sm">
        <Title order={2} id={heading}>
          Impact
        </Title>
        <Faint size="sm">
          Decides the queries of the history again, by the rules in force and with this edit. Nothing is saved.
        </Faint>
        <div className={classes.fields}>
          <NativeSelect label="Queries of" data={ranges} {...form.getInputProps('hours')} />
          <TextInput label="By user" placeholder="all" {...form.getInputProps('user')} />
          <TextInput label="From source" placeholder="all" {...form.getInputProps('source')} />
        </div>
        <Group>
          <Button
            variant="default"
            loading={impact.isPending}
            leftSection={<IconArrowsSplit2 size={16} aria-hidden />}
            onClick={() => impact.mutate()}
          >
            What would move?
          </Button>
          {impact.isPending && (
            <Button variant="subtle" onClick={stop}>
              Stop
            </Button>
          )}
        </Group>
        <div aria-live="polite" ref={answer}>
          {impact.error !== null && isStopped && (
            <Notice tone="error" color="gray" title="Stopped">
              Nothing was computed to its end.
            </Notice>
          )}
          {impact.error !== null && !isStopped && (
            <Notice tone="error" title="Not computed">
              {messageOf(impact.error)}
            </Notice>
          )}
          {impact.error === null && impact.data !== undefined && <Report impact={impact.data} />}
        </div>
      </Stack>
    </Paper>
  );
}

const count = new Intl.NumberFormat('en').format;
const queriesText = (number: number): string => `${count(number)} ${number === 1 ? 'query' : 'queries'}`;

function Report({ impact }: { readonly impact: RuleImpact }) {
  const { queries, moved, unknown, unmoved, cutBy, oldest, moves, users, sources, unreplayed, examples } = impact;
  const color = moved > 0 ? 'yellow' : unknown > 0 ? 'gray' : 'green';
  return (
    <Stack gap="sm">
      <Alert color={color} title={`${count(moved)} of ${queriesText(queries)} would move`}>
        {count(unmoved)} would not; of {count(unknown)} it is unknown.
        {cutBy !== null && (
          <>
            {' '}
            {cutBy === 'time' ? 'The time was over' : 'There are more queries than are looked at'}
            {oldest !== null && (
              <>
                : older ones than of <Time at={Date.parse(oldest)} /> are left out
              </>
            )}
            .
          </>
        )}
      </Alert>
      {moves.length > 0 && (
        <PlainTable
          label="Moves"
          head={['From', 'To', 'Queries']}
          cellClass={classes.name}
          numbersFrom={2}
          rows={moves.map(({ from, to, queries: moving }) => ({
            key: `${targetText(from)} ${targetText(to)}`,
            cells: [targetText(from), targetText(to), count(moving)],
          }))}
        />
      )}
      <Shares what="user" shares={users} />
      <Shares what="source" shares={sources} />
      {unreplayed.length > 0 && (
        <section aria-label="What could not be replayed">
          <Strong>What could not be replayed</Strong>
          <ul className={classes.list}>
            {unreplayed.map(({ rule, reads, queries: concerned, unknown: undecided }) => (
              <li key={rule}>
                {rule === '' ? 'no rules, the routing group header' : rule}: the history does not hold{' '}
                {reads.join(', ')} of {queriesText(concerned)}
                {undecided > 0 ? `; ${count(undecided)} may move` : ', which does not matter'}
              </li>
            ))}
          </ul>
        </section>
      )}
      {examples.length > 0 && <Examples examples={examples} />}
    </Stack>
  );
}

function Shares({ what, shares }: { readonly what: 'user' | 'source'; readonly shares: RuleImpact['users'] }) {
  if (shares.length === 0) return null;
  return (
    <section aria-label={`By ${what}`}>
      <Strong>By {what}</Strong>
      <ul className={classes.list}>
        {shares.map(({ name, queries, moved, unknown }) => (
          <li key={name ?? ''}>
            {name ?? `no ${what}`}: {count(moved)} of {queriesText(queries)}
            {unknown > 0 && `, ${count(unknown)} unknown`}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Examples({ examples }: { readonly examples: RuleImpact['examples'] }) {
  return (
    <Accordion variant="contained" aria-label="Examples">
      {examples.map(({ queryId, user, source, created, queryText, from, to, before, after, assumed }) => (
        <Accordion.Item key={queryId} value={queryId}>
          <Accordion.Control>
            <Text size="sm" className={classes.name ?? ''}>
              {queryId}: {targetText(from)} → {targetText(to)}
            </Text>
            <Faint>
              {user ?? 'no user'}
              {source !== null && ` · ${source}`} · <Time at={Date.parse(created)} />
            </Faint>
          </Accordion.Control>
          <Accordion.Panel>
            <Stack gap="sm">
              <Text size="xs" component="pre" className={classes.sql ?? ''}>
                {queryText}
              </Text>
              {assumed.length > 0 && (
                <Text size="sm">
                  {assumed.join(', ')} could not be replayed. It moves however that comes out; one way is shown.
                </Text>
              )}
              <Strong>Now</Strong>
              <TraceList rules={before} />
              <Strong>With this edit</Strong>
              <TraceList rules={after} />
            </Stack>
          </Accordion.Panel>
        </Accordion.Item>
      ))}
    </Accordion>
  );
}

const kinds = {
  group: 'group',
  cluster: 'cluster',
  denied: 'denied',
  refused: 'refused, as a rule fails',
  bound: 'the cluster that it belongs to',
  uncertain: 'one of several',
} as const;

function targetText({ kind, name }: RuleImpact['moves'][number]['from']): string {
  return name === null ? kinds[kind] : `${kinds[kind]} ${name}`;
}
