import { groupSourceNames } from '../../model/membership.ts';
import { choice, duration, flag, integer, listOf, oneOf, optionalSection, text } from '../fields.ts';

/** `userMapping` (docs/identity.md#user-mapping). */
export const userMapping = optionalSection(
  'Names of users for rules, limits, statistics, history and groups, made of the names that requests come with. Without it names stay as they are.',
  {
    pattern: text('Regular expression that the whole name must match; its first group is the user.', {
      aliases: ['user-mapping.pattern'],
    }),
    file: text(
      "JSON file of rules in the form of Trino's user mapping, in place of the pattern. Followed while running.",
      { format: 'path', aliases: ['user-mapping.file'] },
    ),
    refreshPeriod: duration('Time between two looks at the file.', { default: 5_000, range: [100, 3_600_000] }),
    sources: listOf(
      'Where the names come from that are mapped: the sources of the user of a request, and `login`, the names of callers of the API; others stay as they are.',
      oneOf(['header', 'basic', 'bearer', 'cookie', 'certificate', 'login']),
      { default: ['header', 'basic', 'bearer', 'cookie', 'certificate', 'login'] },
    ),
    rewriteUserHeader: flag(
      'Whether clusters get the mapped name in place of the user header of the client, where the gateway has verified who the user is. Names that a client merely claims are never sent.',
      { default: false },
    ),
  },
);

/** `userGroups` (docs/identity.md). */
export const userGroups = optionalSection(
  'Where groups of users come from, for rules, limits and roles. Without it nobody is in a group.',
  {
    sources: listOf(
      'Order in which the sources are asked; it names those that have a group of keys here. Unset, the order of the table in docs/identity.md.',
      oneOf(groupSourceNames),
      { default: null },
    ),
    combine: choice(
      '`all`: a user has the groups of all sources; `first`: those of the first source that has any.',
      ['all', 'first'],
      { default: 'all' },
    ),
    claimedUsers: listOf(
      'Sources of user names that are believed although the gateway does not verify them: their users are looked up. By default only users of client certificates, of verified JWTs and of token exchanges are.',
      oneOf(['header', 'basic', 'bearer', 'cookie']),
    ),
    timeout: duration('Longest time that a query waits for look-ups; later answers serve the next query.', {
      default: 1_000,
      range: [10, 10_000],
    }),
    cacheDuration: duration('Time for which a look-up is taken for current.', {
      default: 60_000,
      range: [1_000, 3_600_000],
    }),
    keepLastKnown: duration(
      'Age up to which the last known groups of a user count while their source is unavailable; then none do.',
      { default: 3_600_000, range: [0, 7 * 86_400_000] },
    ),
    maxCachedUsers: integer('Users whose looked up groups are remembered, of each source.', {
      default: 10_000,
      range: [1, 1_000_000],
    }),
    token: optionalSection('A claim of verified JWTs; `token: {}` takes `groups`.', {
      claim: text(
        'Claim of the JWT that names the user, a list or one text; a dotted name such as `realm_access.roles` is a path.',
        { default: 'groups' },
      ),
      delimiter: text('What stands between groups where the claim is one text.', { default: ',' }),
    }),
    userInfo: optionalSection(
      'A claim of the UserInfo answer about exchanged tokens (`requestAnalyzerConfig.oauthTokenInfoUrl`); `userInfo: {}` takes `groups`.',
      {
        claim: text("Claim of the provider's answer, as `token.claim`.", { default: 'groups' }),
        delimiter: text('What stands between groups where the claim is one text.', { default: ',' }),
      },
    ),
    tokenReview: optionalSection(
      'Groups of service accounts whose token names the user (`requestAnalyzerConfig.kubernetesTokens`): `tokenReview: {}`.',
      {},
    ),
    certificate: optionalSection('Names in verified client certificates; `certificate: {}` takes `OU`.', {
      field: text(
        'What of the client certificate that names the user holds its groups: an attribute of the subject such as `OU`, or `SAN_URI`, `SAN_EMAIL`, `SAN_DNS`.',
        { default: 'OU', format: 'name' },
      ),
    }),
    header: optionalSection('A header of trusted proxies.', {
      name: text(
        'Header with the groups that proxies in `server.trustedProxies` set, and remove from what clients send.',
        { required: true, format: 'headerName' },
      ),
      delimiter: text('What stands between groups.', { default: ',' }),
    }),
    ldap: optionalSection('An LDAP server.', {
      configPath: text(
        'YAML file of the LDAP server, as `authorization.ldapConfigPath`: how to connect, and how to find a user.',
        { required: true, format: 'path' },
      ),
      groupBaseDn: text(
        "DN under which groups are searched that have the user's DN as a member. Unset, the names in the user's `ldapGroupMemberAttribute` count.",
      ),
      groupFilter: text('Filter of groups, e.g. (cn=data-*).', { default: '(objectClass=*)' }),
      memberAttribute: text('Attribute of a group that holds the DNs of its members.', { default: 'member' }),
      nameAttribute: text('Attribute of a group that holds its name.', { default: 'cn' }),
      nested: flag('Whether groups of groups count, ten levels deep; with `groupBaseDn` only.', { default: true }),
    }),
    file: optionalSection('A group file.', {
      path: text("Group file in the form of Trino's: lines `group:user1,user2`. Followed while running.", {
        required: true,
        aliases: ['file.group-file'],
        format: 'path',
      }),
      refreshPeriod: duration('Time between two looks at the file.', {
        default: 5_000,
        range: [100, 3_600_000],
        aliases: ['file.refresh-period'],
      }),
    }),
  },
);
