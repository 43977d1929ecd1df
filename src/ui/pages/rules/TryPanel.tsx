import { Accordion, Alert, Button, NativeSelect, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { IconArrowsSplit2 } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import { call } from '../../client/call.ts';
import { useRules } from '../../client/resources.ts';
import type { Explanation, RuleImpact, RuleInput } from '../../client/types.ts';
import { Faint, listed, Strong } from '../../components/elements.tsx';
import { PlainTable } from '../../components/facts.tsx';
import { QuestionForm } from '../../components/forms.tsx';
import { TraceList } from '../../components/RuleTrace.tsx';
import { Time } from '../../components/time.tsx';
import { useSession } from '../../session/session.ts';
import classes from './rules.module.css';

interface TryPanelProps {
  /** An unsaved rule in a form; called when the button is pressed. Absent: the current rules. */
  readonly draft?: () => RuleInput;
}

/** Explains, rule by rule, how a described request would be routed. No query is sent. */
export function TryPanel({ draft }: TryPanelProps) {
  const { user: caller } = useSession();
  const rules = useRules();
  const isAdmin = caller.roles.includes('ADMIN');
  // Others may only explain their own requests, and teams those that their tenant decides.
  const mayName = isAdmin || rules.data?.rules.some(({ mayChange }) => mayChange) === true;
  const request = { method: 'POST', path: '/v1/statement', user: isAdmin ? '' : caller.userName };
  const form = useForm({ initialValues: { ...request, groups: '', headers: '', sql: 'SELECT 1' } });
  const explain = useMutation({
    mutationFn: (fields: typeof form.values) => {
      const rule = draft === undefined ? {} : { rule: draft() };
      return call<Explanation>('/api/explain', { body: { ...describedRequest(fields), ...rule } });
    },
  });
  return (
    <QuestionForm
      title={draft === undefined ? 'Try it' : 'Try this edit'}
      question="Where would it go?"
      failure="Not tried"
      explain={explain}
      onSubmit={form.onSubmit((fields) => explain.mutate(fields))}
      result={(explanation) => <Result explanation={explanation} />}
    >
      <div className={classes.pair}>
        <TextInput label="Method" {...form.getInputProps('method')} />
        <TextInput label="Path" {...form.getInputProps('path')} />
        <TextInput label="User" placeholder="as the headers say" readOnly={!mayName} {...form.getInputProps('user')} />
        {mayName && (
          <TextInput
            label="Groups of the user"
            placeholder="with commas; as the sources say"
            {...form.getInputProps('groups')}
          />
        )}
      </div>
      <Textarea
        label="Headers"
        description="One a line, e.g. X-Engine-Source: etl"
        className={classes.mono ?? ''}
        {...form.getInputProps('headers')}
      />
      <Textarea label="SQL" className={classes.mono ?? ''} {...form.getInputProps('sql')} />
    </QuestionForm>
  );
}

interface RequestFields {
  readonly method: string;
  readonly path: string;
  readonly user: string;
  /** Names separated by commas; empty: the groups from the configured sources. */
  readonly groups: string;
  readonly headers: string;
  readonly sql: string;
}

/** The body of `POST /api/explain`; lines without a colon are headers without a value. */
function describedRequest({ method, path, user, groups, headers, sql }: RequestFields): Record<string, unknown> {
  const lines = headers
    .split('\n')
    .map((line) => line.split(':'))
    .map(([name = '', ...value]) => ({ name: name.trim(), value: value.join(':').trim() }))
    .filter(({ name }) => name !== '');
  const byName = [...Map.groupBy(lines, ({ name }) => name)];
  const named = listed(groups);
  return {
    method: method.trim().toUpperCase(),
    path: path.trim(),
    headers: Object.fromEntries(byName.map(([name, own]) => [name, own.map(({ value }) => value)])),
    ...(user.trim() === '' ? {} : { user: user.trim(), mapUser: true }),
    ...(named.length === 0 ? {} : { groups: named }),
    ...(sql === '' ? {} : { body: sql }),
  };
}

const colors = { routed: 'green', denied: 'red', rejected: 'red', noCluster: 'yellow' } as const;

function Result({ explanation }: { readonly explanation: Explanation }) {
  const { outcome, message, clusters, rules, request } = explanation;
  const tables = request.query?.tables ?? [];
  return (
    <Stack gap="sm">
      <Alert color={colors[outcome]} title={outcome === 'noCluster' ? 'no cluster' : outcome}>
        {message}
      </Alert>
      <Text size="sm">
        User: {request.user ?? 'not known'}
        {request.userMapping !== null && `, mapped from ${request.userMapping.from}`}
        {request.query !== null && ` · ${request.query.queryType}`}
        {tables.length > 0 && ` of ${tables.join(', ')}`}
      </Text>
      {request.groups !== null && (
        <Text size="sm" className={classes.what ?? ''}>
          Groups: {request.groups.length === 0 ? 'none' : request.groups.map(groupsText).join('; ')}
        </Text>
      )}
      {rules.length > 0 && <TraceList rules={rules} />}
      <ul className={classes.clusters} aria-label="Clusters considered">
        {clusters.map(({ cluster, taken, reason }) => (
          <li key={cluster}>
            {taken ? '✓ ' : ''}
            {cluster}: {reason}
          </li>
        ))}
      </ul>
    </Stack>
  );
}

function groupsText({ source, groups, note }: NonNullable<Explanation['request']['groups']>[number]): string {
  const text = `${groups.length === 0 ? 'none' : groups.join(', ')} (${source === 'described' ? 'as given' : source})`;
  return note === undefined ? text : `${text}: ${note}`;
}

interface ImpactProps {
  /** The rule in the form; called when the button is pressed. */
  readonly draft: () => RuleInput;
  /** True computes it when it is first shown. */
  readonly isFirst: boolean;
}

const impactRanges = [
  { value: '1', label: 'Last hour' },
  { value: '24', label: 'Last 24 hours' },
  { value: '168', label: 'Last 7 days' },
  { value: '720', label: 'Last 30 days' },
];

/** Shows past queries that a rule change would route differently. Changes nothing. */
export function Impact({ draft, isFirst }: ImpactProps) {
  const form = useForm({ initialValues: { hours: '24', user: '', source: '' } });
  const running = useRef<AbortController | null>(null);
  const impact = useMutation({
    mutationFn: ({ hours, ...by }: typeof form.values) => {
      running.current = new AbortController();
      const { name, ...rule } = draft();
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
  const { mutate } = impact;
  // A gateway computes one at a time: an abandoned computation must not block others.
  useEffect(() => {
    if (isFirst) mutate({ hours: '24', user: '', source: '' });
    return () => running.current?.abort();
  }, [isFirst, mutate]);
  const stop = () => running.current?.abort(new Error('Nothing was computed to its end.'));
  return (
    <QuestionForm
      title="Impact"
      question="What would move?"
      icon={IconArrowsSplit2}
      failure={running.current?.signal.aborted === true ? 'Stopped' : 'Not computed'}
      explain={impact}
      onSubmit={form.onSubmit((values) => impact.mutate(values))}
      actions={
        impact.isPending && (
          <Button variant="subtle" onClick={stop}>
            Stop
          </Button>
        )
      }
      result={(report) => <Report impact={report} />}
    >
      <Faint size="sm">
        Decides the queries of the history again, by the rules in force and with this edit. Nothing is saved.
      </Faint>
      <div className={classes.pair}>
        <NativeSelect label="Queries of" data={impactRanges} {...form.getInputProps('hours')} />
        <TextInput label="By user" placeholder="all" {...form.getInputProps('user')} />
        <TextInput label="From source" placeholder="all" {...form.getInputProps('source')} />
      </div>
    </QuestionForm>
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
          cellClass={classes.what}
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
          <ul className={classes.clusters}>
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
      <ul className={classes.clusters}>
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
            <Text size="sm" className={classes.what ?? ''}>
              {queryId}: {targetText(from)} → {targetText(to)}
            </Text>
            <Faint>
              {user ?? 'no user'}
              {source !== null && ` · ${source}`} · <Time at={Date.parse(created)} />
            </Faint>
          </Accordion.Control>
          <Accordion.Panel>
            <Stack gap="sm">
              <Text size="xs" component="pre" className={classes.code ?? ''}>
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
