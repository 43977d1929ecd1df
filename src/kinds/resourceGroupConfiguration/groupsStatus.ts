import { conditionState, ready, type State, type StatusDraft, type StatusView, statusDraft } from '../outcome.ts';
import type { GroupsOutcome } from './groupsProgram.ts';
import { databaseTitle, type GroupTargetState } from './groupTargets.ts';

const MAX_LISTED = 5;

export function groupsStatus(
  outcome: GroupsOutcome,
  { stored, targets }: Pick<StatusView, 'stored' | 'targets'>,
): StatusDraft {
  const { acceptance } = outcome;
  const states = targets.of(outcome.key);
  const applied = appliedState(outcome, states);
  const own = ready(acceptance, stored);
  const isReady = own.status === 'True';
  return statusDraft(outcome, acceptance, states === null ? {} : { databases: states.map(databaseField) }, {
    Applied: applied,
    Drift: driftState(states ?? []),
    Ready: !isReady
      ? own
      : applied.status === 'True'
        ? { ...own, message: 'accepted, and in the tables of the engines' }
        : applied,
  });
}

function appliedState(
  { acceptance, paused, resource }: GroupsOutcome,
  states: readonly GroupTargetState[] | null,
): State {
  if (acceptance.status !== 'True') {
    return { ...acceptance, message: 'what was applied before stays in the tables' };
  }
  if (paused) return conditionState('Unknown', 'Paused', 'nothing is written while the resource is paused');
  if (states === null) return conditionState('Unknown', 'Pending', 'the tables are not written yet');
  const failed = states.filter(({ failure }) => failure !== null);
  const [first] = failed;
  if (first?.failure != null) {
    const listed = failed
      .slice(0, MAX_LISTED)
      .map(({ database, failure }) => `${databaseTitle(database)}: ${failure?.message}`);
    const more = failed.length > MAX_LISTED ? `; ${failed.length - MAX_LISTED} more` : '';
    return conditionState('False', first.failure.reason, `${listed.join('; ')}${more}`);
  }
  const count = states.length === 1 ? 'one database' : `${states.length} databases`;
  const message = `generation ${resource.metadata.generation} is in the tables of ${count}`;
  return conditionState('True', 'Applied', message);
}

function driftState(states: readonly GroupTargetState[]): State | null {
  const drifted = states.filter(({ drift }) => drift !== null && !drift.repaired);
  const [last] = drifted.length > 0 ? drifted : states.filter(({ drift }) => drift !== null);
  if (last?.drift == null) return states.length === 0 ? null : inStep;
  const { at, count, differences } = last.drift;
  const more = count > differences.length ? `, and ${count - differences.length} more` : '';
  const what = `${databaseTitle(last.database)}: ${differences.join('; ')}${more}`;
  return drifted.length > 0
    ? conditionState('True', 'Changed', `somebody else changed ${what}; put it back, or declare it (noticed ${at})`)
    : conditionState('False', 'Repaired', `somebody else had changed ${what}; put right ${at}`);
}

const inStep = conditionState('False', 'InStep', 'nobody else changed what is declared');

function databaseField({
  database,
  environment,
  appliedGeneration,
  groups,
  selectors,
  drift,
  failure,
}: GroupTargetState) {
  return {
    ...(database === null ? {} : { name: database }),
    environment,
    ...(appliedGeneration === null ? {} : { appliedGeneration }),
    groups,
    selectors,
    ...(drift === null
      ? {}
      : { drift: { at: drift.at, repaired: drift.repaired, rows: drift.count, differences: drift.differences } }),
    ...(failure === null ? {} : { failure: failure.message }),
  };
}

const integer = (format: 'int32' | 'int64', description: string) => ({ type: 'integer', format, description });
const text = (description: string) => ({ type: 'string', description });
const list = (description: string, items: object) => ({
  ...{ type: 'array', description, 'x-kubernetes-list-type': 'atomic', items },
});
const object = (description: string, required: readonly string[], properties: object) => ({
  ...{ type: 'object', description, required, properties },
});

const driftProperty = object(
  'What somebody else changed since that generation was applied.',
  ['at', 'repaired', 'rows', 'differences'],
  {
    at: { type: 'string', format: 'date-time', description: 'When it was noticed.' },
    repaired: { type: 'boolean', description: 'Whether it was put right.' },
    rows: integer('int32', 'How many rows differed.'),
    differences: list('Some of them in words.', { type: 'string' }),
  },
);

export const statusProperties = {
  databases: list(
    'What is in the tables, by database.',
    object('One database.', ['environment', 'groups', 'selectors'], {
      name: text("As useSchema names it; left out for the gateway's own."),
      environment: text('Environment of the groups.'),
      appliedGeneration: integer('int64', 'Generation of the spec that is in the tables.'),
      groups: integer('int32', 'Rows of groups.'),
      selectors: integer('int32', 'Rows of selectors.'),
      drift: driftProperty,
      failure: text('Why the present generation is not there.'),
    }),
  ),
};
