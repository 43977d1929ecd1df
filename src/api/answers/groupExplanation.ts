import { Type } from 'typebox';
import { type Answer, nullable } from './answer.ts';

/** Which resource group engines choose for a query, and how that came about. */
export const GroupExplanation = Type.Object({
  environment: Type.String({ description: 'Environment whose groups were looked at.' }),
  outcome: Type.Union(
    [Type.Literal('selected'), Type.Literal('rejected'), Type.Literal('failed'), Type.Literal('unknown')],
    {
      description:
        'rejected: no selector matches, so that the engine refuses the query; failed: the name of the group cannot be made of what the query has, so that the query fails; unknown: it depends on an expression that cannot be matched here.',
    },
  ),
  message: Type.String({ description: 'Why.' }),
  selector: nullable(
    Type.Integer(),
    'The selector that decides, by its place in the order in which they are tried, from 0.',
  ),
  group: nullable(Type.Array(Type.String()), "The group's name, root first."),
  path: Type.Array(
    Type.Object({
      resourceGroupId: Type.Integer(),
      name: Type.String({ description: 'With its variables.' }),
      softMemoryLimit: nullable(Type.String(), 'As it is stored.'),
      hardConcurrencyLimit: Type.Integer(),
      maxQueued: Type.Integer(),
    }),
    { description: 'The groups that it consists of, root first, with the limits that hold there.' },
  ),
  selectors: Type.Array(
    Type.Object({
      id: nullable(Type.Integer(), 'Key of the row, where the table has one.'),
      priority: Type.Integer(),
      resourceGroupId: Type.Integer(),
      group: Type.String({ description: 'Path of its group.' }),
      outcome: Type.Union([Type.Literal('matched'), Type.Literal('not-matched'), Type.Literal('unknown')]),
      condition: nullable(Type.String(), 'The condition that did not hold, or is not known.'),
      message: Type.String(),
    }),
    { description: 'What selectors did, highest priority first, up to the one that decides; the first 500 of them.' },
  ),
  omitted: Type.Integer({ description: 'How many of these were left out.' }),
  samePriority: Type.Array(
    Type.Object({
      id: nullable(Type.Integer(), 'Key of the row.'),
      resourceGroupId: Type.Integer(),
      group: Type.String(),
    }),
    {
      description:
        'Further selectors of the same priority that match and lead elsewhere: which of them an engine takes is not defined.',
    },
  ),
  problems: Type.Array(Type.String(), {
    description: 'With these, engines load nothing, and keep what they loaded last.',
  }),
});
export type GroupExplanation = Answer<typeof GroupExplanation>;
