import { Type } from 'typebox';
import type { Answer } from './answer.ts';

/** Who calls. */
export const UserInfo = Type.Object({
  roles: Type.Array(Type.Union([Type.Literal('ADMIN'), Type.Literal('USER'), Type.Literal('API')]), {
    description: 'Roles held.',
  }),
  permissions: Type.Array(Type.String(), { description: 'Pages that are shown; empty: all.' }),
  userId: Type.String(),
  userName: Type.String(),
});
export type UserInfo = Answer<typeof UserInfo>;

/** How to log in (docs/compatibility.md#login); `kubernetes`: a token of the cluster is the password. */
export const LoginType = Type.Union(
  [Type.Literal('form'), Type.Literal('oauth'), Type.Literal('kubernetes'), Type.Literal('none')],
  { description: 'kubernetes: a token of the cluster is the password.' },
);
export type LoginType = Answer<typeof LoginType>;

/** What the web application is configured to show (`uiConfiguration`). */
export const UiConfiguration = Type.Object({ disablePages: Type.Optional(Type.Array(Type.String())) });
export type UiConfiguration = Answer<typeof UiConfiguration>;
