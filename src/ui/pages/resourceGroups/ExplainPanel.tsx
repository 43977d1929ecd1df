import { Alert, Select, Stack, Text, TextInput } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useMutation } from '@tanstack/react-query';
import { type FormEvent, useState } from 'react';
import { call } from '../../client/call.ts';
import type { GroupExplanation } from '../../client/types.ts';
import { Explained } from '../../components/Explained.tsx';
import { listed } from '../../components/listed.ts';
import { Panel } from '../../components/Panel.tsx';
import { queryTypeChoices } from './forms.ts';
import classes from './resourceGroups.module.css';

interface ExplainPanelProps {
  readonly database: string;
  readonly environments: readonly string[];
}

const estimates = [
  ['executionTime', 'Estimated run time', 'such as 5m'],
  ['cpuTime', 'Estimated CPU time', 'such as 1h'],
  ['peakMemory', 'Estimated memory', 'such as 5GB'],
] as const;
type Estimates = Readonly<Record<(typeof estimates)[number][0], string>>;

/** Explains which group engines choose for a query, selector by selector. No query is sent. */
export function ExplainPanel({ database, environments }: ExplainPanelProps) {
  const [only = null, ...more] = environments;
  const [environment, setEnvironment] = useState(more.length === 0 ? only : null);
  const [user, setUser] = useState('');
  const [originalUser, setOriginalUser] = useState('');
  const [authenticatedUser, setAuthenticatedUser] = useState('');
  const [estimated, setEstimated] = useState<Estimates>({ executionTime: '', cpuTime: '', peakMemory: '' });
  const [groups, setGroups] = useState('');
  const [source, setSource] = useState('');
  const [tags, setTags] = useState('');
  const [queryType, setQueryType] = useState<string | null>('SELECT');
  const explain = useMutation({
    mutationFn: () =>
      call<GroupExplanation>('/api/resourcegroups/explain', {
        body: {
          ...{ useSchema: database, environment, user, queryType },
          ...{ originalUser: given(originalUser), authenticatedUser: given(authenticatedUser), source: given(source) },
          resourceEstimates: Object.fromEntries(estimates.map(([name]) => [name, given(estimated[name].trim())])),
          groups: listed(groups),
          clientTags: listed(tags),
        },
      }),
  });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    explain.mutate();
  };
  return (
    <Panel title="Which group takes a query">
      <form onSubmit={submit}>
        <Stack gap="sm">
          <div className={classes.fields}>
            <TextInput label="User" required value={user} onChange={(event) => setUser(event.currentTarget.value)} />
            <TextInput
              label="Original user"
              placeholder="the same"
              value={originalUser}
              onChange={(event) => setOriginalUser(event.currentTarget.value)}
            />
            <TextInput
              label="Authenticated user"
              placeholder="the original one"
              value={authenticatedUser}
              onChange={(event) => setAuthenticatedUser(event.currentTarget.value)}
            />
            <TextInput
              label="Groups"
              placeholder="with commas"
              value={groups}
              onChange={(event) => setGroups(event.currentTarget.value)}
            />
            <TextInput label="Source" value={source} onChange={(event) => setSource(event.currentTarget.value)} />
            <TextInput
              label="Client tags"
              placeholder="with commas"
              value={tags}
              onChange={(event) => setTags(event.currentTarget.value)}
            />
            {estimates.map(([name, label, placeholder]) => (
              <TextInput
                key={name}
                {...{ label, placeholder }}
                value={estimated[name]}
                onChange={(event) => {
                  const { value } = event.currentTarget;
                  setEstimated((before) => ({ ...before, [name]: value }));
                }}
              />
            ))}
            <Select
              label="Query type"
              clearable
              data={[...queryTypeChoices]}
              value={queryType}
              onChange={setQueryType}
            />
            {environments.length > 1 && (
              <Select
                label="Environment"
                required
                data={[...environments]}
                value={environment}
                onChange={setEnvironment}
              />
            )}
          </div>
          <Explained question="Which group takes it?" failure="Not explained" explain={explain}>
            {(explanation) => <Answer explanation={explanation} />}
          </Explained>
        </Stack>
      </form>
    </Panel>
  );
}

const colors = { selected: 'green', rejected: 'red', failed: 'red', unknown: 'yellow' } as const;

function Answer({ explanation }: { readonly explanation: GroupExplanation }) {
  const { outcome, message, group, path, selectors, omitted, samePriority, problems } = explanation;
  return (
    <Stack gap="sm">
      <Alert color={colors[outcome]} title={group === null ? outcome : group.join('.')}>
        {message}
      </Alert>
      {path.length > 0 && (
        <Text size="sm">
          {path
            .map(
              ({ name, hardConcurrencyLimit, maxQueued }) =>
                `${name}: ${hardConcurrencyLimit} may run, ${maxQueued} may wait`,
            )
            .join(' · ')}
        </Text>
      )}
      {problems.length > 0 && (
        <Alert color="red" title="Engines do not load these tables" icon={<IconAlertTriangle aria-hidden />}>
          {problems.join('; ')}
        </Alert>
      )}
      {samePriority.length > 0 && (
        <Alert color="yellow" title="Other selectors of the same priority match too">
          Which of them an engine takes is not defined: {samePriority.map((other) => other.group).join(', ')}
        </Alert>
      )}
      <ol className={classes.tried} aria-label="Selectors in the order in which they are tried">
        {selectors.map((selector, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: selectors have no key of their own
          <li key={index}>
            {selector.outcome === 'matched' ? '✓ ' : ''}
            priority {selector.priority}, {selector.group}: {selector.message}
          </li>
        ))}
      </ol>
      {omitted > 0 && <Text size="sm">and {omitted} more</Text>}
    </Stack>
  );
}

/** Value of a field; null if empty. */
function given(text: string): string | null {
  return text === '' ? null : text;
}
