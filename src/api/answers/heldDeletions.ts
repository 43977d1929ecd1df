import { Type } from 'typebox';
import type { Answer } from './answer.ts';

const time = (description: string) => Type.String({ format: 'date-time', description });

/** Losses of resources that are not believed yet. */
export const HeldDeletionList = Type.Object({
  losses: Type.Array(
    Type.Object({
      kind: Type.String({ description: 'Kind of the resources.' }),
      namespace: Type.String({ description: 'Namespace of the resources.' }),
      held: Type.Integer({ description: 'Resources that the source has lost and that stay routed.' }),
      left: Type.Integer({ description: 'Such resources that the source still has.' }),
      since: time('When this replica noticed it.'),
      until: Type.Union([time('When the loss is believed without a confirmation.'), Type.Null()]),
      names: Type.Array(Type.String(), { description: '`namespace/name` of the first 20 of them.' }),
    }),
  ),
});
export type HeldDeletionList = Answer<typeof HeldDeletionList>;
