import { Type } from 'typebox';
import { type Answer, oneOf } from './response.ts';

export const UserInfo = Type.Object({
  roles: Type.Array(oneOf(['ADMIN', 'USER', 'API']), {
    description: 'Roles held.',
  }),
  permissions: Type.Array(Type.String(), { description: 'Pages that are shown; empty: all.' }),
  userId: Type.String(),
  userName: Type.String(),
  method: Type.Optional(
    Type.String({
      description:
        'By which way the caller was recognised, where several are configured: `presetUsers`, `ldap`, `kubernetes`, `certificate`, `oauth`, or the name of a provider or issuer.',
    }),
  ),
});
export type UserInfo = Answer<typeof UserInfo>;

/** Login method (docs/compatibility.md#login); `kubernetes`: a token of the cluster is the password. */
export const LoginType = oneOf(
  ['form', 'oauth', 'kubernetes', 'none'],
  'kubernetes: a token of the cluster is the password.',
);
export type LoginType = Answer<typeof LoginType>;

export const LoginMethod = Type.Union([
  Type.Object({ kind: Type.Literal('form') }, { description: 'Name and password: `POST /login`.' }),
  Type.Object(
    {
      kind: Type.Literal('provider'),
      name: Type.String({ description: 'For `POST /sso/{name}`; `oauth` is that of `authentication.oauth`.' }),
      label: Type.String({ description: 'What the login page calls it.' }),
    },
    { description: 'An OpenID provider.' },
  ),
  Type.Object(
    { kind: Type.Literal('kubernetes') },
    { description: 'A token of the Kubernetes cluster: `POST /login` with it as the password, and no name.' },
  ),
]);
export type LoginMethod = Answer<typeof LoginMethod>;

export const LoginMethods = Type.Object({
  methods: Type.Array(LoginMethod, { description: 'In the order of the login page; empty where nobody logs in.' }),
});
export type LoginMethods = Answer<typeof LoginMethods>;

/** Configuration of the web application (`uiConfiguration`). */
export const UiConfiguration = Type.Object({ disablePages: Type.Optional(Type.Array(Type.String())) });
export type UiConfiguration = Answer<typeof UiConfiguration>;

export const UsablePages = Type.Object({
  pages: Type.Array(Type.String({ description: 'Name of a page, as in disablePages: history, routing-rules, …' })),
});
export type UsablePages = Answer<typeof UsablePages>;
