import { type Static, type TSchema, Type } from 'typebox';
import type { ResourceKey } from '../../model/resource.ts';
import { conditionState, ready, type State, type StatusDraft, type StatusView, statusDraft } from '../outcome.ts';
import type { GroupsOutcome } from './groupsProgram.ts';

const list = <T extends TSchema>(items: T, description: string) =>
  Type.Array(items, { description, 'x-kubernetes-list-type': 'atomic' });
const rows = (description: string) => Type.Integer({ format: 'int32', description });

const Drift = Type.Object(
  {
    at: Type.String({ format: 'date-time', description: 'When it was noticed.' }),
    repaired: Type.Boolean({ description: 'Whether it was put right.' }),
    rows: rows('How many rows differed.'),
    differences: list(Type.String(), 'Some of them in words.'),
  },
  { description: 'What somebody else changed since that generation was applied.' },
);
/** External changes of declared rows. */
export type GroupDrift = Static<typeof Drift>;

const DatabaseState = Type.Object(
  {
    name: Type.Optional(Type.String({ description: "As useSchema names it; left out for the gateway's own." })),
    environment: Type.String({ description: 'Environment of the groups.' }),
    appliedGeneration: Type.Optional(
      Type.Integer({ format: 'int64', description: 'Generation of the spec that is in the tables.' }),
    ),
    groups: rows('Rows of groups.'),
    selectors: rows('Rows of selectors.'),
    drift: Type.Optional(Drift),
    failure: Type.Optional(Type.String({ description: 'Why the present generation is not there.' })),
  },
  { description: 'One database.' },
);
/** A database in the status. */
export type DatabaseState = Static<typeof DatabaseState>;

export const statusProperties = { databases: list(DatabaseState, 'What is in the tables, by database.') };

/** A database in the status, and the reason of its failure as conditions have it. */
export type GroupTargetState = DatabaseState & { readonly reason?: string };

/** The state of a database among those of a resource. @param database null: the gateway's own */
export function databaseState<S extends DatabaseState>(
  states: readonly S[],
  database: string | null,
  environment: string,
): S | undefined {
  return states.find((each) => (each.name ?? null) === database && each.environment === environment);
}

/** States of the groups that a resource declares, by database; null: not tried yet. */
export type GroupTargets = (key: ResourceKey) => readonly GroupTargetState[] | null;

export function groupsStatus(outcome: GroupsOutcome, { stored, targets }: StatusView): StatusDraft {
  const { acceptance } = outcome;
  const states = targets(outcome.key);
  const applied = appliedState(outcome, states);
  const own = ready(acceptance, stored);
  const message = 'accepted, and in the tables of the engines';
  const isOwn = own.status !== 'True' || outcome.suspended;
  const all = isOwn ? own : applied.status === 'True' ? { ...own, message } : applied;
  const fields = states === null ? {} : { databases: states.map(({ reason: _, ...state }) => state) };
  return statusDraft(outcome, acceptance, fields, { Applied: applied, Drift: driftState(states ?? []), Ready: all });
}

function appliedState({ acceptance, suspended, resource }: GroupsOutcome, states: ReturnType<GroupTargets>): State {
  if (acceptance.status !== 'True') return { ...acceptance, message: 'what was applied before stays in the tables' };
  if (suspended) return conditionState('Unknown', 'Suspended', 'nothing is written while spec.suspend is true');
  if (states === null) return conditionState('Unknown', 'Pending', 'the tables are not written yet');
  const failed = states.filter(({ failure }) => failure !== undefined);
  if (failed.length > 0) {
    const message = failed.map((state) => `${titleOf(state)}: ${state.failure}`).join('; ');
    return conditionState('False', failed[0]?.reason ?? 'NotPossible', message);
  }
  const count = states.length === 1 ? 'one database' : `${states.length} databases`;
  const message = `generation ${resource.metadata.generation} is in the tables of ${count}`;
  return conditionState('True', 'Applied', message);
}

function driftState(states: readonly GroupTargetState[]): State | null {
  if (states.length === 0) return null;
  const drifted = states.filter(({ drift }) => drift !== undefined);
  const state = drifted.find(({ drift }) => drift?.repaired === false) ?? drifted[0];
  if (state?.drift === undefined) return conditionState('False', 'InStep', 'nobody else changed what is declared');
  const { at, rows: count, differences, repaired } = state.drift;
  const more = count > differences.length ? `, and ${count - differences.length} more` : '';
  const what = `${titleOf(state)}: ${differences.join('; ')}${more}`;
  return repaired
    ? conditionState('False', 'Repaired', `somebody else had changed ${what}; put right ${at}`)
    : conditionState('True', 'Changed', `somebody else changed ${what}; put it back, or declare it (noticed ${at})`);
}

const titleOf = ({ name }: GroupTargetState): string => name ?? "the gateway's own database";
