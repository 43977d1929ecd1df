import { Alert, Paper, Stack, Text, Textarea, TextInput, Title } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useMutation } from '@tanstack/react-query';
import { useId } from 'react';
import { call } from '../../client/call.ts';
import type { Explanation, RuleInput } from '../../client/types.ts';
import { Explained } from '../../components/Explained.tsx';
import { listed } from '../../components/listed.ts';
import { TraceList } from '../../components/RuleTrace.tsx';
import { useSession } from '../../session/session.ts';
import classes from './rules.module.css';

interface TryPanelProps {
  /** An unsaved rule in a form; called when the button is pressed. Absent: the current rules. */
  readonly draft?: () => RuleInput;
}

/** Explains, rule by rule, how a described request would be routed. No query is sent. */
export function TryPanel({ draft }: TryPanelProps) {
  const { user: caller } = useSession();
  // Without ADMIN, users may only explain their own requests.
  const isAdmin = caller.roles.includes('ADMIN');
  const request = { method: 'POST', path: '/v1/statement', user: isAdmin ? '' : caller.userName };
  const form = useForm({ initialValues: { ...request, groups: '', headers: '', sql: 'SELECT 1' } });
  const heading = useId();
  const explain = useMutation({
    mutationFn: (fields: typeof form.values) => {
      const rule = draft === undefined ? {} : { rule: draft() };
      return call<Explanation>('/api/explain', { body: { ...describedRequest(fields), ...rule } });
    },
  });
  return (
    <Paper withBorder p="sm" component="section" aria-labelledby={heading}>
      <form onSubmit={form.onSubmit((fields) => explain.mutate(fields))}>
        <Stack gap="sm">
          <Title order={2} id={heading}>
            {draft === undefined ? 'Try it' : 'Try this edit'}
          </Title>
          <div className={classes.pair}>
            <TextInput label="Method" {...form.getInputProps('method')} />
            <TextInput label="Path" {...form.getInputProps('path')} />
            <TextInput
              label="User"
              placeholder="as the headers say"
              readOnly={!isAdmin}
              {...form.getInputProps('user')}
            />
            {isAdmin && (
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
          <Explained question="Where would it go?" failure="Not tried" explain={explain}>
            {(explanation) => <Answer explanation={explanation} />}
          </Explained>
        </Stack>
      </form>
    </Paper>
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

function Answer({ explanation }: { readonly explanation: Explanation }) {
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
