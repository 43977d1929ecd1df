import { Type } from 'typebox';
import { type Answer, nullable } from './answer.ts';

const place = {
  position: Type.Union([Type.Integer(), Type.Null()], {
    description:
      'Its place among those of its routing group, in which users (or sources) take turns; 1 is the next. Each replica admits in this order what it holds. Null while it is being sent.',
  }),
  groupWaiting: Type.Integer({ description: 'Queries that wait for its routing group.' }),
  movedFirst: Type.Boolean({ description: 'An administrator moved it before all others of its group.' }),
  state: Type.Union([Type.Literal('waiting'), Type.Literal('submitting')], {
    description: '`submitting`: it is being sent to a cluster.',
  }),
  reason: Type.String({ description: 'Why it waits.' }),
};

export const QueuePlace = Type.Object(place);

/** Queries that wait for their turn. */
export const QueueList = Type.Object({
  total: Type.Integer({ description: 'Queries in the list.' }),
  queries: Type.Array(
    Type.Object({
      id: Type.String({ description: 'The id that the gateway gave it.' }),
      routingGroup: Type.String(),
      user: nullable(Type.String(), 'The user who sent it; null where the gateway does not know.'),
      source: nullable(Type.String(), 'What its client says it is.'),
      since: Type.String({ format: 'date-time', description: 'When it was put into the queue.' }),
      waitedSeconds: Type.Integer({ description: 'Seconds since then.' }),
      ...place,
      replica: nullable(Type.String(), 'The replica that holds it; null: the one that its client asks next will.'),
    }),
    { description: 'Oldest first.' },
  ),
});
export type QueueList = Answer<typeof QueueList>;
