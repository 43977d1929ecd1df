import { Alert, Paper, Stack, Text, Textarea, TextInput, Title } from '@mantine/core';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useId, useState } from 'react';
import { call } from '../../client/call.ts';
import type { RuleInput } from '../../client/rules.ts';
import type { Explanation } from '../../client/types.ts';
import { Explained } from '../../components/Explained.tsx';
import { TraceList } from '../../components/RuleTrace.tsx';
import { useSession } from '../../session/session.ts';
import { describedRequest } from './describedRequest.ts';
import classes from './rules.module.css';

interface TryPanelProps {
  /** An unsaved rule in a form; called when the button is pressed. Absent: the current rules. */
  readonly draft?: () => RuleInput;
}

/** Explains, rule by rule, how a described request would be routed. No query is sent. */
export function TryPanel({ draft }: TryPanelProps) {
  const [method, setMethod] = useState('POST');
  const [path, setPath] = useState('/v1/statement');
  const session = useSession();
  // Without ADMIN, users may only explain their own requests.
  const isAdmin = session.user.roles.includes('ADMIN');
  const [user, setUser] = useState(isAdmin ? '' : session.user.userName);
  const [groups, setGroups] = useState('');
  const [headers, setHeaders] = useState('');
  const [sql, setSql] = useState('SELECT 1');
  const heading = useId();
  const explain = useMutation({
    mutationFn: () => {
      const rule = draft === undefined ? {} : { rule: draft() };
      return call<Explanation>('/api/explain', {
        body: { ...describedRequest({ method, path, user, groups, headers, sql }), ...rule },
      });
    },
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    explain.mutate();
  };
  return (
    <Paper withBorder p="sm" component="section" aria-labelledby={heading}>
      <form onSubmit={submit}>
        <Stack gap="sm">
          <Title order={2} id={heading}>
            {draft === undefined ? 'Try it' : 'Try this edit'}
          </Title>
          <div className={classes.pair}>
            <TextInput
              label="Method"
              value={method}
              onChange={(event) => setMethod(event.currentTarget.value.toUpperCase())}
            />
            <TextInput label="Path" value={path} onChange={(event) => setPath(event.currentTarget.value)} />
            <TextInput
              label="User"
              placeholder="as the headers say"
              value={user}
              readOnly={!isAdmin}
              onChange={(event) => setUser(event.currentTarget.value)}
            />
            {isAdmin && (
              <TextInput
                label="Groups of the user"
                placeholder="with commas; as the sources say"
                value={groups}
                onChange={(event) => setGroups(event.currentTarget.value)}
              />
            )}
          </div>
          <Textarea
            label="Headers"
            description="One a line, e.g. X-Engine-Source: etl"
            className={classes.mono ?? ''}
            value={headers}
            onChange={(event) => setHeaders(event.currentTarget.value)}
          />
          <Textarea
            label="SQL"
            className={classes.mono ?? ''}
            value={sql}
            onChange={(event) => setSql(event.currentTarget.value)}
          />
          <Explained question="Where would it go?" failure="Not tried" explain={explain}>
            {(explanation) => <Answer explanation={explanation} />}
          </Explained>
        </Stack>
      </form>
    </Paper>
  );
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
          Groups: {request.groups.length === 0 ? 'none' : request.groups.map(saidOf).join('; ')}
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

type SaidOfGroups = NonNullable<Explanation['request']['groups']>[number];

function saidOf({ source, groups, note }: SaidOfGroups): string {
  const said = `${groups.length === 0 ? 'none' : groups.join(', ')} (${source === 'described' ? 'as given' : source})`;
  return note === undefined ? said : `${said}: ${note}`;
}
