import { Alert, Button, Group, Paper, Stack, Text, Textarea, TextInput, Title } from '@mantine/core';
import { IconAlertTriangle, IconPlayerPlay } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useEffect, useId, useRef, useState } from 'react';
import { messageOf } from '../../client/apiError.ts';
import { call } from '../../client/call.ts';
import type { RuleText } from '../../client/rules.ts';
import type { Explanation } from '../../client/types.ts';
import { RuleTrace } from '../../components/RuleTrace.tsx';
import { describedRequest } from './describedRequest.ts';
import classes from './rules.module.css';

interface TryPanelProps {
  /** A rule as it stands in a form, not stored; asked when the button is pressed. Absent: the rules as they are. */
  readonly draft?: () => RuleText;
}

/** Explains, rule by rule, how a described request would be routed. No query is sent. */
export function TryPanel({ draft }: TryPanelProps) {
  const [method, setMethod] = useState('POST');
  const [path, setPath] = useState('/v1/statement');
  const [user, setUser] = useState('');
  const [headers, setHeaders] = useState('');
  const [sql, setSql] = useState('SELECT 1');
  const heading = useId();
  const answer = useRef<HTMLDivElement>(null);
  const explain = useMutation({
    mutationFn: () => {
      const rule = draft === undefined ? {} : { rule: draft() };
      return call<Explanation>('/api/explain', {
        body: { ...describedRequest({ method, path, user, headers, sql }), ...rule },
      });
    },
  });
  // In a dialog it is below what is seen.
  useEffect(() => {
    if (explain.isSuccess || explain.isError) answer.current?.scrollIntoView({ block: 'nearest' });
  }, [explain.isSuccess, explain.isError]);
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
              onChange={(event) => setUser(event.currentTarget.value)}
            />
          </div>
          <Textarea
            label="Headers"
            description="One a line, e.g. X-Engine-Source: etl"
            autosize
            minRows={2}
            className={classes.mono ?? ''}
            value={headers}
            onChange={(event) => setHeaders(event.currentTarget.value)}
          />
          <Textarea
            label="SQL"
            autosize
            minRows={2}
            className={classes.mono ?? ''}
            value={sql}
            onChange={(event) => setSql(event.currentTarget.value)}
          />
          <Group>
            <Button
              type="submit"
              variant="default"
              loading={explain.isPending}
              leftSection={<IconPlayerPlay size={16} aria-hidden />}
            >
              Where would it go?
            </Button>
          </Group>
          <div aria-live="polite" ref={answer}>
            {explain.error !== null && (
              <Alert role="alert" color="red" title="Not tried" icon={<IconAlertTriangle aria-hidden />}>
                {messageOf(explain.error)}
              </Alert>
            )}
            {explain.error === null && explain.data !== undefined && <Answer explanation={explain.data} />}
          </div>
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
        {request.query !== null && ` · ${request.query.queryType}`}
        {tables.length > 0 && ` of ${tables.join(', ')}`}
      </Text>
      {rules.length > 0 && <RuleTrace rules={rules} />}
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
