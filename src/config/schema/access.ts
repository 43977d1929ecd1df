import { ENGINE_CLUSTERS } from '../../kinds/engineCluster/spec.ts';
import { ROUTING_RULES } from '../../kinds/routingRule/spec.ts';
import {
  choice,
  duration,
  flag,
  integer,
  listOf,
  mapOf,
  optionalSection,
  secretText,
  section,
  text,
} from '../fields.ts';
import { issuerRoles, requiredClaims, tokenIssuer, userPrefix } from './tokenIssuers.ts';

const openidProvider = {
  issuer: text({ description: 'Issuer of tokens.', format: 'url' }),
  clientId: text({ description: 'Client id at the provider.' }),
  clientSecret: secretText({ description: 'Client secret at the provider.' }),
  tokenEndpoint: text({
    description: "The provider's token endpoint; unset with the two below, all three are discovered from the issuer.",
    default: null,
    format: 'url',
  }),
  authorizationEndpoint: text({
    description: "The provider's authorization endpoint.",
    default: null,
    format: 'url',
  }),
  jwkEndpoint: text({
    description: "The provider's keys.",
    default: null,
    format: 'url',
  }),
  redirectUrl: text({ description: "The gateway's own callback URL.", format: 'url' }),
  redirectWebUrl: text({
    description: 'Where the browser goes after logging in; `/` by default.',
    default: null,
  }),
  scopes: listOf(text({ description: 'Scope.' }), {
    description: 'Scopes that are requested.',
    default: ['openid', 'profile', 'email'],
  }),
  userIdField: text({ description: 'Claim that holds the user name.', default: 'sub' }),
  privilegesField: text({
    description: 'Claim that holds the privileges; a list is joined by `_`. Unset, they are looked up by name.',
    default: null,
  }),
  audiences: listOf(text({ description: 'Audience.' }), {
    description: 'Audiences of which a token must name one; unset, the client id.',
    default: null,
  }),
  requiredClaims,
  label: text({
    description: 'What the login page calls the provider, where there are several ways; unset, its name or its host.',
    default: null,
  }),
  logoutRedirectUrl: text({
    description:
      'Where the provider sends the browser after a logout, as it is registered there: set, users who log out here are logged out there as well (RP-Initiated Logout).',
    default: null,
    format: 'url',
  }),
};

/** `authentication` (docs/authentication.md). */
export const authentication = optionalSection(
  {
    defaultType: choice(['form', 'oauth', 'none'], {
      description:
        'Way of logging in; users log in by what there is, by form where form and oauth are configured. `authentication: none`, without a group of keys, lets every call pass.',
      default: null,
      others: 'users log in by what there is',
    }),
    session: section(
      {
        lifetime: duration({
          description: 'Time after which a login runs out.',
          default: 12 * 3_600_000,
          minimum: 60_000,
          maximum: 30 * 86_400_000,
        }),
        secret: secretText({
          description:
            'Secret of at least 32 characters that signs sessions where `form` has no key pair, the same on all replicas. Unset, one is made of the client secret of `oauth`; with `kubernetes` alone each process has its own, and its sessions are not known to others.',
          default: null,
        }),
        previousSecrets: listOf(
          secretText({ description: 'Secret of at least 32 characters; an empty one is ignored.' }),
          {
            description:
              'Earlier or next values of `secret`: sessions that they signed stay valid, new sessions are not signed with them ([rotation](secrets.md#rotate-the-session-secret)).',
            default: [],
          },
        ),
      },
      { description: 'Sessions of users who have logged in.' },
    ),
    loginLimit: section(
      {
        maxAttempts: integer({
          description:
            'Failed logins of one name from one address before the next ones get 429. An address has ten times as many for all names.',
          default: 10,
          minimum: 1,
          maximum: 10_000,
        }),
        window: duration({
          description:
            'Time in which the failed logins of a name from an address are forgotten: one in each `window / maxAttempts`.',
          default: 15 * 60_000,
          minimum: 1000,
          maximum: 86_400_000,
        }),
      },
      { description: 'Limit of failed logins.' },
    ),
    form: optionalSection(
      {
        ldapConfigPath: text({
          description: 'YAML file of the LDAP server for logging in.',
          default: null,
          format: 'path',
        }),
        order: listOf(choice(['ldap', 'presetUsers'], { description: 'Where a password is checked.' }), {
          description:
            'Order in which the LDAP server and `presetUsers` are asked; with `presetUsers` first, preset users log in while the LDAP server is unavailable.',
          default: ['ldap', 'presetUsers'],
        }),
        selfSignKeyPair: section(
          {
            privateKeyRsa: text({
              description:
                'PEM file of the private key (PKCS#8) that signs sessions: RSA of at least 2048 bits, or EC (P-256, P-384, P-521).',
              aliases: ['privateKey'],
              format: 'path',
            }),
            publicKeyRsa: text({
              description: 'PEM file of its public key (X.509).',
              aliases: ['publicKey'],
              format: 'path',
            }),
          },
          { description: 'Keys of sessions.' },
        ),
      },
      { description: 'Logging in with name and password.' },
    ),
    oauth: optionalSection(openidProvider, { description: 'Logging in at an OpenID Connect provider.' }),
    providers: mapOf(
      section(
        { ...openidProvider, userPrefix, roles: issuerRoles },
        { description: 'One provider, by the name that is in its callback URL.' },
      ),
      {
        description:
          'Further OpenID Connect providers, by name (lower-case letters, digits, `-`), each with a button on the login page and `redirectUrl: https://HOST/oidc/callback/{name}`.',
        default: {},
      },
    ),
    tokenIssuers: mapOf(
      section(
        {
          ...tokenIssuer,
          userIdField: text({ description: 'Claim that holds the user name.', default: 'sub' }),
          privilegesField: text({
            description: 'Claim that holds the privileges; a list is joined by `_`. Unset, they are looked up by name.',
            default: null,
          }),
          roles: issuerRoles,
        },
        { description: 'One issuer, by name.' },
      ),
      {
        description:
          'Issuers of bearer tokens (JWTs) of programs, by name, beside the providers that users log in at: the `iss` of a token says whose keys verify it.',
        default: {},
      },
    ),
    clientCertificates: flag({
      description:
        'Whether programs are recognised by their client certificate, as requestAnalyzerConfig names its user; form, oauth or kubernetes must be there for people.',
      default: false,
    }),
    publicReads: flag({
      description: `Whether \`/api/public/*\` answers without credentials; \`false\`: the caller needs the role API, USER or ADMIN (in Kubernetes: list ${ENGINE_CLUSTERS}).`,
      default: true,
    }),
    kubernetes: optionalSection(
      {
        audiences: listOf(text({ description: 'Audience.' }), {
          description: "Audiences that tokens may be issued for; unset, the API server's own.",
          default: null,
        }),
        cacheDuration: duration({
          description: 'Time for which answers of the API server are believed.',
          default: 10_000,
          minimum: 0,
          maximum: 300_000,
        }),
        opaqueTokens: flag({
          description:
            'Whether tokens that are not JWTs are shown to the API server too: for clusters whose users have such tokens by a webhook (EKS, GKE).',
          default: false,
        }),
      },
      {
        description: `Tokens of the Kubernetes cluster: TokenReview says who calls, SubjectAccessReview on ${ENGINE_CLUSTERS} and ${ROUTING_RULES} what they may.`,
      },
    ),
  },
  {
    description:
      'Who may call the API. Without it every call passes and the gateway listens on this machine alone; `authentication: none` lets every call pass on all addresses.',
    shorthand: { word: 'none', key: 'defaultType' },
  },
);

/** `clientCertificateJwtAuthentication` (docs/client-certificates.md). */
export const clientCertificateJwtAuthentication = optionalSection(
  {
    jwtSigningKeyPair: section(
      {
        privateKey: text({
          description:
            'PEM file of the private key that signs tokens: RSA of at least 2048 bits, or EC (P-256, P-384, P-521). Followed while running.',
          aliases: ['privateKeyRsa'],
          format: 'path',
        }),
        publicKey: text({
          description:
            'PEM file of its public key, or of a certificate of it, to check the pair; unset, it is derived.',
          default: null,
          aliases: ['publicKeyRsa'],
          format: 'path',
        }),
      },
      { description: 'Keys of tokens.' },
    ),
    jwtPrincipalClaim: text({
      description: 'Claim that holds the user, beside `sub`.',
      default: 'sub',
      format: 'name',
    }),
    jwtIssuer: text({ description: 'Issuer of tokens (`iss`); unset, they name none.', default: null }),
    jwtAudiences: listOf(text({ description: 'Audience.' }), {
      description:
        'Audiences of tokens (`aud`); `{cluster}` stands for the name of the cluster, so that a token is worth nothing at others. Unset, tokens name none.',
      default: null,
    }),
    jwtClusterAudiences: mapOf(listOf(text({ description: 'Audience.' }), { description: 'Audiences.' }), {
      description: 'Audiences of tokens for single clusters, by name, in place of `jwtAudiences`.',
      default: {},
    }),
    jwtKeyId: text({
      description:
        'Id of the key (`kid`); unset, its thumbprint (RFC 7638). Set, a new key cannot be published before it signs.',
      default: null,
    }),
    jwtLifetime: duration({
      description: 'Time that tokens are valid.',
      default: 300_000,
      minimum: 30_000,
      maximum: 3_600_000,
    }),
    jwtPublishAhead: duration({
      description:
        'Time between publishing a new key and signing with it: more than clusters wait before they read the keys again, which for Trino is 15m.',
      default: 1_200_000,
      minimum: 0,
      maximum: 86_400_000,
    }),
    jwtPublishedKeys: listOf(text({ description: 'PEM file.', format: 'path' }), {
      description: 'PEM files of further public keys that are published, such as the next one.',
      default: [],
    }),
    tokenHosts: listOf(text({ description: 'Host.', format: 'hostPattern' }), {
      description:
        'Hosts whose clusters get tokens, over TLS and in clear text, e.g. `*.trino.svc` or `trino.example:8443`. Unset, all clusters over TLS and none in clear text.',
      default: null,
    }),
    clientCertificateRequired: flag({
      description:
        "Whether requests without a certificate are refused (401), but those for engines' pages, logins and probes.",
      default: false,
    }),
    overrideTrinoUser: flag({
      description:
        'Whether clusters are sent the user of the certificate as user and original user, whatever the client asks to be.',
      default: false,
      aliases: ['overrideUser'],
    }),
  },
  { description: 'Tokens (JWT) by which clusters recognise the users of client certificates.' },
);

/** `authorization` (docs/authentication.md#roles). */
export const authorization = optionalSection(
  {
    admin: text({ description: 'Privileges that give the role ADMIN.', default: null, format: 'javaRegex' }),
    user: text({ description: 'Privileges that give the role USER.', default: null, format: 'javaRegex' }),
    api: text({ description: 'Privileges that give the role API.', default: null, format: 'javaRegex' }),
    groupRoles: section(
      {
        admin: listOf(text({ description: 'Group.' }), {
          description: 'Groups that give the role ADMIN.',
          default: [],
        }),
        user: listOf(text({ description: 'Group.' }), { description: 'Groups that give the role USER.', default: [] }),
        api: listOf(text({ description: 'Group.' }), { description: 'Groups that give the role API.', default: [] }),
      },
      { description: 'Roles of groups of users, by the sources of `userGroups`, beside those of privileges.' },
    ),
    ldapConfigPath: text({ description: 'YAML file of the LDAP server for groups.', default: null, format: 'path' }),
    webappReadRole: choice(['ADMIN', 'USER'], {
      description:
        'Role that the reading calls under /webapp need. Unset, `ADMIN`; with `protocol.productName: Trino` as in Trino Gateway: `USER`, but for rules.',
      default: null,
    }),
  },
  {
    description: 'Which privileges give which role; the whole text of the privileges must match.',
  },
);

/** `presetUsers` (docs/authentication.md#names-and-passwords). */
export const presetUsers = mapOf(
  section(
    {
      password: text({ description: 'Password, or its bcrypt or scrypt hash.', default: null, secret: true }),
      privileges: text({ description: 'Privileges, e.g. ADMIN_USER_API.', default: null }),
    },
    { description: 'One user.' },
  ),
  { description: 'Users of form logins, by name.', default: {} },
);

/** `pagePermissions`: what the user interface shows (docs/authentication.md#roles). */
export const pagePermissions = mapOf(text({ description: 'Pages joined by `_`; unset, all.', default: null }), {
  description: 'Pages that a role sees, by role; a role without entry sees all.',
  default: {},
});

/** Pages of the user interface by their names in `disablePages` and `pagePermissions`. */
export const pageNames = [
  'dashboard',
  'cluster',
  'resource-group',
  'selector',
  'history',
  'routing-rules',
  'limits',
  'queue',
  'audit',
] as const;

/** `uiConfiguration`: what the user interface shows. */
export const uiConfiguration = section(
  {
    enabled: flag({ description: 'Whether the user interface is served.', default: true }),
    disablePages: listOf(text({ description: 'Page.' }), {
      description: `Pages that are not shown, of ${pageNames.join(', ')}; others have no effect.`,
      default: [],
    }),
    hiddenPageCalls: choice(['refuse', 'allow'], {
      description:
        'What calls get that belong only to pages which `disablePages` or `pagePermissions` hide from their caller: 403, or their answer.',
      default: 'refuse',
    }),
  },
  { description: 'The user interface.' },
);

/** `gatewayCookieConfiguration` (docs/routing.md#logins-by-oauth2). */
export const gatewayCookieConfiguration = section(
  {
    enabled: flag({ description: 'Whether sticky cookies are used.', default: false }),
    cookieSigningSecret: text({
      description: 'Secret that signs them, the same on all replicas; needed where enabled.',
      default: null,
      secret: true,
    }),
  },
  { description: 'Sticky cookies of the OAuth2 handshake.' },
);

/** `oauth2GatewayCookieConfiguration` (docs/routing.md#logins-by-oauth2). */
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
  { description: 'The cookie of the OAuth2 handshake.' },
);
