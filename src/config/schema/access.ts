import { choice, duration, flag, listOf, mapOf, optionalSection, section, text } from '../fields.ts';
import { unlessBuilt } from './pendingFeatures.ts';

/** `authentication` (contract.md §6, §8). */
export const authentication = optionalSection(
  {
    defaultType: choice(['form', 'oauth'], { description: 'Way of logging in that is offered.' }),
    form: optionalSection(
      {
        ldapConfigPath: text({
          description: 'YAML file of the LDAP server for logging in.',
          default: null,
          format: 'path',
        }),
        selfSignKeyPair: section(
          {
            privateKeyRsa: text({
              description: 'PEM file of the private key (PKCS#8) that signs sessions.',
              format: 'path',
            }),
            publicKeyRsa: text({ description: 'PEM file of its public key (X.509).', format: 'path' }),
          },
          { description: 'Keys of sessions.' },
        ),
      },
      { description: 'Logging in with name and password.' },
    ),
    oauth: optionalSection(
      {
        issuer: text({ description: 'Issuer of tokens.', format: 'url' }),
        clientId: text({ description: 'Client id at the provider.' }),
        clientSecret: text({ description: 'Client secret at the provider.', secret: true }),
        tokenEndpoint: text({ description: "The provider's token endpoint.", format: 'url' }),
        authorizationEndpoint: text({ description: "The provider's authorization endpoint.", format: 'url' }),
        jwkEndpoint: text({ description: "The provider's keys.", format: 'url' }),
        redirectUrl: text({ description: "The gateway's own callback URL.", format: 'url' }),
        redirectWebUrl: text({
          description: 'Where the browser goes after logging in; `/` by default.',
          default: null,
        }),
        scopes: listOf(text({ description: 'Scope.' }), { description: 'Scopes asked for.' }),
        userIdField: text({ description: 'Claim that holds the user name.' }),
        privilegesField: text({ description: 'Claim that holds the privileges.', default: null }),
        audiences: listOf(text({ description: 'Audience.' }), {
          description: 'Audiences of which a token must name one; unset, none is asked for.',
          default: null,
        }),
      },
      { description: 'Logging in at an OpenID Connect provider.' },
    ),
  },
  { description: 'Who may call the API; without it every call passes.', ...unlessBuilt('authentication') },
);

/** `authorization` (contract.md §6, §8; design.md: /webapp roles). */
export const authorization = optionalSection(
  {
    admin: text({ description: 'Privileges that give the role ADMIN.', default: null, format: 'regex' }),
    user: text({ description: 'Privileges that give the role USER.', default: null, format: 'regex' }),
    api: text({ description: 'Privileges that give the role API.', default: null, format: 'regex' }),
    ldapConfigPath: text({ description: 'YAML file of the LDAP server for groups.', default: null, format: 'path' }),
    webappReadRole: choice(['ADMIN', 'USER'], {
      description: 'Role that the reading calls under /webapp need.',
      default: 'ADMIN',
    }),
  },
  {
    description: 'Which privileges give which role; the whole text of the privileges must match.',
    ...unlessBuilt('authentication'),
  },
);

/** `presetUsers` (contract.md §6, §8). */
export const presetUsers = mapOf(
  section(
    {
      password: text({ description: 'Password or its hash.', default: null, secret: true }),
      privileges: text({ description: 'Privileges, e.g. ADMIN_USER_API.', default: null }),
    },
    { description: 'One user.' },
  ),
  { description: 'Users of form logins, by name.', default: {}, ...unlessBuilt('authentication') },
);

/** `pagePermissions`, `uiConfiguration`: what the user interface shows (contract.md §6, §8.7). */
export const pagePermissions = mapOf(text({ description: 'Pages joined by `_`; unset, all.', default: null }), {
  description: 'Pages that a role sees, by role; a role without entry sees all.',
  default: {},
  ...unlessBuilt('userInterface'),
});

/** `uiConfiguration` (contract.md §6). */
export const uiConfiguration = section(
  {
    disablePages: listOf(
      choice(['dashboard', 'cluster', 'resource-group', 'selector', 'history', 'routing-rules'], {
        description: 'Page.',
      }),
      { description: 'Pages that are not shown.', default: [] },
    ),
  },
  { description: 'The user interface.', ...unlessBuilt('userInterface') },
);

/** `gatewayCookieConfiguration` (contract.md §3). */
export const gatewayCookieConfiguration = section(
  {
    enabled: flag({ description: 'Whether sticky cookies are used.', default: false }),
    cookieSigningSecret: text({
      description: 'Secret that signs them, the same on all replicas; needed where enabled.',
      default: null,
      secret: true,
    }),
  },
  { description: 'Sticky cookies of the OAuth2 handshake.', ...unlessBuilt('handshakeCookies') },
);

/** `oauth2GatewayCookieConfiguration` (contract.md §3). */
export const oauth2GatewayCookieConfiguration = section(
  {
    routingPaths: listOf(text({ description: 'Path.', format: 'urlPath' }), {
      description: 'Paths that the cookie steers.',
      default: ['/oauth2'],
    }),
    deletePaths: listOf(text({ description: 'Path.', format: 'urlPath' }), {
      description: 'Paths that end the cookie.',
      default: ['/logout', '/oauth2/logout'],
    }),
    lifetime: duration({ description: 'Life of the cookie.', default: 600_000, minimum: 1000, maximum: 86_400_000 }),
  },
  { description: 'The cookie of the OAuth2 handshake.', ...unlessBuilt('handshakeCookies') },
);
