import { ENGINE_CLUSTERS } from '../../kinds/engineCluster/spec.ts';
import { ROUTING_RULES } from '../../kinds/routingRule/spec.ts';
import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';
import {
  choice,
  duration,
  each,
  flag,
  integer,
  listOf,
  mapOf,
  oneOf,
  optionalSection,
  secretText,
  section,
  text,
} from '../fields.ts';

/** Claims that tokens must have in addition to what is always checked. */
export const requiredClaims = mapOf(
  'Claims that a token must have, with their values; a dotted name is a path.',
  each(),
);

/** Prefix of user names, so that two issuers cannot give the same name. */
export const userPrefix = text(
  'What stands before the names of its users, so that they are not those of others; unset, `{name}/`. Empty, its users are taken for those of the same name elsewhere.',
);

export const callerClaims = {
  userIdField: text('Claim that holds the user name.', { default: 'sub' }),
  privilegesField: text('Claim that holds the privileges; a list is joined by `_`. Unset, they are looked up by name.'),
};

export const roleKeys = {
  admin: text('Privileges that give the role ADMIN.', { format: 'javaRegex' }),
  user: text('Privileges that give the role USER.', { format: 'javaRegex' }),
  api: text('Privileges that give the role API.', { format: 'javaRegex' }),
};

/** Roles by the privileges of one issuer's tokens alone. */
export const issuerRoles = optionalSection(
  'Which privileges of its tokens give which role, in place of `authorization.admin`, `user` and `api`; must be given, `{}` gives none.',
  roleKeys,
);

/** Keys of an issuer whose tokens are verified, without those of what becomes of its users. */
export const tokenIssuer = {
  issuer: text('Issuer that its tokens name (`iss`), exactly.', { required: true, format: 'url' }),
  jwksUrl: text('Its keys; unset, they are discovered from the issuer (OpenID Connect Discovery).', { format: 'url' }),
  audiences: listOf('Audiences of which a token must name one.', each(), { required: true }),
  algorithms: listOf('Signature algorithms that are accepted.', oneOf(signatureAlgorithms), {
    default: signatureAlgorithms,
  }),
  requiredClaims,
  userPrefix,
};

const openidProvider = {
  issuer: text('Issuer of tokens.', { required: true, format: 'url' }),
  clientId: text('Client id at the provider.', { required: true }),
  clientSecret: secretText('Client secret at the provider.', { required: true }),
  tokenEndpoint: text(
    "The provider's token endpoint; unset with the two below, all three are discovered from the issuer.",
    { format: 'url' },
  ),
  authorizationEndpoint: text("The provider's authorization endpoint.", { format: 'url' }),
  jwkEndpoint: text("The provider's keys.", { format: 'url' }),
  redirectUrl: text("The gateway's own callback URL.", { required: true, format: 'url' }),
  redirectWebUrl: text('Where the browser goes after logging in; `/` by default.'),
  scopes: listOf('Scopes that are requested.', each(), { default: ['openid', 'profile', 'email'] }),
  ...callerClaims,
  audiences: listOf('Audiences of which a token must name one; unset, the client id.', each(), { default: null }),
  requiredClaims,
  label: text('What the login page calls the provider, where there are several ways; unset, its name or its host.'),
  logoutRedirectUrl: text(
    'Where the provider sends the browser after a logout, as it is registered there: set, users who log out here are logged out there as well (RP-Initiated Logout).',
    { format: 'url' },
  ),
};

/** `authentication` (docs/authentication.md). */
export const authentication = optionalSection(
  'Who may call the API. Without it every call passes and the gateway listens on this machine alone; `authentication: none` lets every call pass on all addresses.',
  {
    defaultType: choice(
      'Way of logging in; users log in by what there is, by form where form and oauth are configured. `authentication: none`, without a group of keys, lets every call pass.',
      ['form', 'oauth', 'none'],
      { others: 'users log in by what there is' },
    ),
    session: section('Sessions of users who have logged in.', {
      lifetime: duration('Time after which a login runs out.', {
        default: 12 * 3_600_000,
        range: [60_000, 30 * 86_400_000],
      }),
      secret: secretText(
        'Secret of at least 32 characters that signs sessions where `form` has no key pair, the same on all replicas. Unset, one is made of the client secret of `oauth`; with `kubernetes` alone each process has its own, and its sessions are not known to others.',
      ),
      previousSecrets: listOf(
        'Earlier or next values of `secret`: sessions that they signed stay valid, new sessions are not signed with them ([rotation](secrets.md#rotate-the-session-secret)).',
        secretText('Secret of at least 32 characters; an empty one is ignored.', { required: true }),
      ),
    }),
    loginLimit: section('Limit of failed logins.', {
      maxAttempts: integer(
        'Failed logins of one name from one address before the next ones get 429. An address has ten times as many for all names.',
        { default: 10, range: [1, 10_000] },
      ),
      window: duration(
        'Time in which the failed logins of a name from an address are forgotten: one in each `window / maxAttempts`.',
        { default: 15 * 60_000, range: [1000, 86_400_000] },
      ),
    }),
    form: optionalSection('Logging in with name and password.', {
      ldapConfigPath: text('YAML file of the LDAP server for logging in.', { format: 'path' }),
      order: listOf(
        'Order in which the LDAP server and `presetUsers` are asked; with `presetUsers` first, preset users log in while the LDAP server is unavailable.',
        oneOf(['ldap', 'presetUsers']),
        { default: ['ldap', 'presetUsers'] },
      ),
      selfSignKeyPair: section('Keys of sessions.', {
        privateKeyRsa: text(
          'PEM file of the private key (PKCS#8) that signs sessions: RSA of at least 2048 bits, or EC (P-256, P-384, P-521).',
          { required: true, aliases: ['privateKey'], format: 'path' },
        ),
        publicKeyRsa: text('PEM file of its public key (X.509).', {
          required: true,
          aliases: ['publicKey'],
          format: 'path',
        }),
      }),
    }),
    oauth: optionalSection('Logging in at an OpenID Connect provider.', openidProvider),
    providers: mapOf(
      'Further OpenID Connect providers, by name (lower-case letters, digits, `-`), each with a button on the login page and `redirectUrl: https://HOST/oidc/callback/{name}`.',
      section('One provider, by the name that is in its callback URL.', {
        ...openidProvider,
        userPrefix,
        roles: issuerRoles,
      }),
    ),
    tokenIssuers: mapOf(
      'Issuers of bearer tokens (JWTs) of programs, by name, beside the providers that users log in at: the `iss` of a token says whose keys verify it.',
      section('One issuer, by name.', {
        ...tokenIssuer,
        ...callerClaims,
        roles: issuerRoles,
      }),
    ),
    clientCertificates: flag(
      'Whether programs are recognised by their client certificate, as requestAnalyzerConfig names its user; form, oauth or kubernetes must be there for people.',
      { default: false },
    ),
    publicReads: flag(
      `Whether \`/api/public/*\` answers without credentials; \`false\`: the caller needs the role API, USER or ADMIN (in Kubernetes: list ${ENGINE_CLUSTERS}).`,
      { default: true },
    ),
    kubernetes: optionalSection(
      `Tokens of the Kubernetes cluster: TokenReview says who calls, SubjectAccessReview on ${ENGINE_CLUSTERS} and ${ROUTING_RULES} what they may.`,
      {
        audiences: listOf("Audiences that tokens may be issued for; unset, the API server's own.", each(), {
          default: null,
        }),
        cacheDuration: duration('Time for which answers of the API server are believed.', {
          default: 10_000,
          range: [0, 300_000],
        }),
        opaqueTokens: flag(
          'Whether tokens that are not JWTs are shown to the API server too: for clusters whose users have such tokens by a webhook (EKS, GKE).',
          { default: false },
        ),
      },
    ),
  },
  { shorthand: { word: 'none', key: 'defaultType' } },
);

/** `clientCertificateJwtAuthentication` (docs/client-certificates.md). */
export const clientCertificateJwtAuthentication = optionalSection(
  'Tokens (JWT) by which clusters recognise the users of client certificates.',
  {
    jwtSigningKeyPair: section('Keys of tokens.', {
      privateKey: text(
        'PEM file of the private key that signs tokens: RSA of at least 2048 bits, or EC (P-256, P-384, P-521). Followed while running.',
        { required: true, aliases: ['privateKeyRsa'], format: 'path' },
      ),
      publicKey: text(
        'PEM file of its public key, or of a certificate of it, to check the pair; unset, it is derived.',
        { aliases: ['publicKeyRsa'], format: 'path' },
      ),
    }),
    jwtPrincipalClaim: text('Claim that holds the user, beside `sub`.', { default: 'sub', format: 'name' }),
    jwtIssuer: text('Issuer of tokens (`iss`); unset, they name none.'),
    jwtAudiences: listOf(
      'Audiences of tokens (`aud`); `{cluster}` stands for the name of the cluster, so that a token is worth nothing at others. Unset, tokens name none.',
      each(),
      { default: null },
    ),
    jwtClusterAudiences: mapOf(
      'Audiences of tokens for single clusters, by name, in place of `jwtAudiences`.',
      listOf('Audiences.', each(), { required: true }),
    ),
    jwtKeyId: text(
      'Id of the key (`kid`); unset, its thumbprint (RFC 7638). Set, a new key cannot be published before it signs.',
    ),
    jwtLifetime: duration('Time that tokens are valid.', { default: 300_000, range: [30_000, 3_600_000] }),
    jwtPublishAhead: duration(
      'Time between publishing a new key and signing with it: more than clusters wait before they read the keys again, which for Trino is 15m.',
      { default: 1_200_000, range: [0, 86_400_000] },
    ),
    jwtPublishedKeys: listOf(
      'PEM files of further public keys that are published, such as the next one.',
      each('path'),
    ),
    tokenHosts: listOf(
      'Hosts whose clusters get tokens, over TLS and in clear text, e.g. `*.trino.svc` or `trino.example:8443`. Unset, all clusters over TLS and none in clear text.',
      each('hostPattern'),
      { default: null },
    ),
    clientCertificateRequired: flag(
      "Whether requests without a certificate are refused (401), but those for engines' pages, logins and probes.",
      { default: false },
    ),
    overrideTrinoUser: flag(
      'Whether clusters are sent the user of the certificate as user and original user, whatever the client asks to be.',
      { default: false, aliases: ['overrideUser'] },
    ),
  },
);

/** `authorization` (docs/authentication.md#roles). */
export const authorization = optionalSection(
  'Which privileges give which role; the whole text of the privileges must match.',
  {
    ...roleKeys,
    groupRoles: section('Roles of groups of users, by the sources of `userGroups`, beside those of privileges.', {
      admin: listOf('Groups that give the role ADMIN.', each()),
      user: listOf('Groups that give the role USER.', each()),
      api: listOf('Groups that give the role API.', each()),
    }),
    ldapConfigPath: text('YAML file of the LDAP server for groups.', { format: 'path' }),
    webappReadRole: choice(
      'Role that the reading calls under /webapp need. Unset, `ADMIN`; with `protocol.productName: Trino` as in Trino Gateway: `USER`, but for rules.',
      ['ADMIN', 'USER'],
    ),
  },
);

/** `presetUsers` (docs/authentication.md#names-and-passwords). */
export const presetUsers = mapOf(
  'Users of form logins, by name.',
  section('One user.', {
    password: text('Password, or its bcrypt or scrypt hash.', { secret: true }),
    privileges: text('Privileges, e.g. ADMIN_USER_API.'),
  }),
);

/** `pagePermissions`: what the user interface shows (docs/authentication.md#roles). */
export const pagePermissions = mapOf(
  'Pages that a role sees, by role; a role without entry sees all.',
  text('Pages joined by `_`; unset, all.'),
);

/** Pages of the user interface by their names in `disablePages` and `pagePermissions`. */
export const pageNames = [
  'dashboard',
  'cluster',
  'resource-group',
  'selector',
  'history',
  'workload',
  'replays',
  'routing-rules',
  'limits',
  'queue',
  'audit',
] as const;

/** `uiConfiguration`: what the user interface shows. */
export const uiConfiguration = section('The user interface.', {
  enabled: flag('Whether the user interface is served.', { default: true }),
  disablePages: listOf(`Pages that are not shown, of ${pageNames.join(', ')}; others have no effect.`, each()),
  hiddenPageCalls: choice(
    'What calls get that belong only to pages which `disablePages` or `pagePermissions` hide from their caller: 403, or their answer.',
    ['refuse', 'allow'],
    { default: 'refuse' },
  ),
});

/** `gatewayCookieConfiguration` (docs/routing.md#logins-by-oauth2). */
export const gatewayCookieConfiguration = section('Sticky cookies of the OAuth2 handshake.', {
  enabled: flag('Whether sticky cookies are used.', { default: false }),
  cookieSigningSecret: text('Secret that signs them, the same on all replicas; needed where enabled.', {
    secret: true,
  }),
});

/** `oauth2GatewayCookieConfiguration` (docs/routing.md#logins-by-oauth2). */
export const oauth2GatewayCookieConfiguration = section('The cookie of the OAuth2 handshake.', {
  routingPaths: listOf('Paths that the cookie steers.', each('urlPath'), { default: ['/oauth2'] }),
  deletePaths: listOf('Paths that end the cookie.', each('urlPath'), { default: ['/logout', '/oauth2/logout'] }),
  lifetime: duration('Life of the cookie.', { default: 600_000, range: [1000, 86_400_000] }),
});
