import { Alert, Select, Stack, Text, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useMutation } from '@tanstack/react-query';
import { call } from '../../client/call.ts';
import type { GroupExplanation } from '../../client/types.ts';
import { listed, Notice } from '../../components/elements.tsx';
import { QuestionForm } from '../../components/forms.tsx';
import { queryTypeChoices } from './forms.ts';
import classes from './resourceGroups.module.css';

interface ExplainPanelProps {
  readonly database: string;
  readonly environments: readonly string[];
}

/** Fields of a query: name, label and placeholder. */
const fields = [
  ['user', 'User', ''],
  ['originalUser', 'Original user', 'the same'],
  ['authenticatedUser', 'Authenticated user', 'the original one'],
  ['groups', 'Groups', 'with commas'],
  ['source', 'Source', ''],
  ['tags', 'Client tags', 'with commas'],
  ['executionTime', 'Estimated run time', 'such as 5m'],
  ['cpuTime', 'Estimated CPU time', 'such as 1h'],
  ['peakMemory', 'Estimated memory', 'such as 5GB'],
] as const;

/** Explains which group engines choose for a query, selector by selector. No query is sent. */
export function ExplainPanel({ database, environments }: ExplainPanelProps) {
  const [only = null, ...more] = environments;
  const form = useForm({
    initialValues: {
      ...{ user: '', originalUser: '', authenticatedUser: '', groups: '', source: '', tags: '' },
      ...{ executionTime: '', cpuTime: '', peakMemory: '' },
      environment: more.length === 0 ? only : null,
      queryType: 'SELECT' as string | null,
    },
  });
  const explain = useMutation({
    mutationFn: (values: typeof form.values) => {
      const { user, environment, queryType, groups, tags, ...others } = values;
      const { originalUser, authenticatedUser, source, ...estimates } = Object.fromEntries(
        Object.entries(others).map(([name, text]) => [name, text.trim() || null]),
      );
      return call<GroupExplanation>('/api/resourcegroups/explain', {
        body: {
          ...{ useSchema: database, environment, user, queryType, originalUser, authenticatedUser, source },
          ...{ resourceEstimates: estimates, groups: listed(groups), clientTags: listed(tags) },
        },
      });
    },
  });
  return (
    <QuestionForm
      title="Which group takes a query"
      question="Which group takes it?"
      failure="Not explained"
      explain={explain}
      onSubmit={form.onSubmit((values) => explain.mutate(values))}
      result={(explanation) => <Result explanation={explanation} />}
    >
      <div className={classes.fields}>
        {fields.map(([name, label, placeholder]) => (
          <TextInput key={name} {...{ label, placeholder }} required={name === 'user'} {...form.getInputProps(name)} />
        ))}
        <Select label="Query type" clearable data={queryTypeChoices} {...form.getInputProps('queryType')} />
        {environments.length > 1 && (
          <Select label="Environment" required data={[...environments]} {...form.getInputProps('environment')} />
        )}
      </div>
    </QuestionForm>
  );
}

const colors = { selected: 'green', rejected: 'red', failed: 'red', unknown: 'yellow' } as const;

function Result({ explanation }: { readonly explanation: GroupExplanation }) {
  const { outcome, message, group, path, selectors, omitted, samePriority, problems } = explanation;
  return (
    <Stack gap="sm">
      <Alert color={colors[outcome]} title={group === null ? outcome : group.join('.')}>
        {message}
      </Alert>
      {path.length > 0 && <Text size="sm">{path.map(limitsText).join(' · ')}</Text>}
      {problems.length > 0 && (
        <Notice tone="error" title="Engines do not load these tables">
          {problems.join('; ')}
        </Notice>
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

const limitsText = ({ name, hardConcurrencyLimit, maxQueued }: GroupExplanation['path'][number]): string =>
  `${name}: ${hardConcurrencyLimit} may run, ${maxQueued} may wait`;
