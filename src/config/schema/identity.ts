import { groupSourceNames } from '../../model/membership.ts';
import { choice, duration, flag, integer, listOf, optionalSection, text } from '../fields.ts';

/** `userMapping` (docs/identity.md#user-mapping). */
export const userMapping = optionalSection(
  {
    pattern: text({
      description: 'Regular expression that the whole name must match; its first group is the user.',
      default: null,
      aliases: ['user-mapping.pattern'],
    }),
    file: text({
      description:
        "JSON file of rules in the form of Trino's user mapping, in place of the pattern. Followed while running.",
      default: null,
      format: 'path',
      aliases: ['user-mapping.file'],
    }),
    refreshPeriod: duration({
      description: 'Time between two looks at the file.',
      default: 5_000,
      minimum: 100,
      maximum: 3_600_000,
    }),
    sources: listOf(
      choice(['header', 'basic', 'bearer', 'cookie', 'certificate', 'login'], { description: 'Source of a name.' }),
      {
        description:
          'Where the names come from that are mapped: the sources of the user of a request, and `login`, the names of callers of the API; others stay as they are.',
        default: ['header', 'basic', 'bearer', 'cookie', 'certificate', 'login'],
      },
    ),
    rewriteUserHeader: flag({
      description:
        'Whether clusters get the mapped name in place of the user header of the client, where the gateway has verified who the user is. Names that a client merely claims are never sent.',
      default: false,
    }),
  },
  {
    description:
      'Names of users for rules, limits, statistics, history and groups, made of the names that requests come with. Without it names stay as they are.',
  },
);

/** `userGroups` (docs/identity.md). */
export const userGroups = optionalSection(
  {
    sources: listOf(choice(groupSourceNames, { description: 'Source of groups.' }), {
      description:
        'Order in which the sources are asked; it names those that have a group of keys here. Unset, the order of the table in docs/identity.md.',
      default: null,
    }),
    combine: choice(['all', 'first'], {
      description: '`all`: a user has the groups of all sources; `first`: those of the first source that has any.',
      default: 'all',
    }),
    claimedUsers: listOf(choice(['header', 'basic', 'bearer', 'cookie'], { description: 'Source of the user name.' }), {
      description:
        'Sources of user names that are believed although the gateway does not verify them: their users are looked up. By default only users of client certificates, of verified JWTs and of token exchanges are.',
      default: [],
    }),
    timeout: duration({
      description: 'Longest time that a query waits for look-ups; later answers serve the next query.',
      default: 1_000,
      minimum: 10,
      maximum: 10_000,
    }),
    cacheDuration: duration({
      description: 'Time for which a look-up is taken for current.',
      default: 60_000,
      minimum: 1_000,
      maximum: 3_600_000,
    }),
    keepLastKnown: duration({
      description:
        'Age up to which the last known groups of a user count while their source is unavailable; then none do.',
      default: 3_600_000,
      minimum: 0,
      maximum: 7 * 86_400_000,
    }),
    maxCachedUsers: integer({
      description: 'Users whose looked up groups are remembered, of each source.',
      default: 10_000,
      minimum: 1,
      maximum: 1_000_000,
    }),
    token: optionalSection(
      {
        claim: text({
          description:
            'Claim of the JWT that names the user, a list or one text; a dotted name such as `realm_access.roles` is a path.',
          default: 'groups',
        }),
        delimiter: text({ description: 'What stands between groups where the claim is one text.', default: ',' }),
      },
      { description: 'A claim of verified JWTs; `token: {}` takes `groups`.' },
    ),
    userInfo: optionalSection(
      {
        claim: text({
          description: "Claim of the provider's answer, as `token.claim`.",
          default: 'groups',
        }),
        delimiter: text({ description: 'What stands between groups where the claim is one text.', default: ',' }),
      },
      {
        description:
          'A claim of the UserInfo answer about exchanged tokens (`requestAnalyzerConfig.oauthTokenInfoUrl`); `userInfo: {}` takes `groups`.',
      },
    ),
    tokenReview: optionalSection(
      {},
      {
        description:
          'Groups of service accounts whose token names the user (`requestAnalyzerConfig.kubernetesTokens`): `tokenReview: {}`.',
      },
    ),
    certificate: optionalSection(
      {
        field: text({
          description:
            'What of the client certificate that names the user holds its groups: an attribute of the subject such as `OU`, or `SAN_URI`, `SAN_EMAIL`, `SAN_DNS`.',
          default: 'OU',
          format: 'name',
        }),
      },
      { description: 'Names in verified client certificates; `certificate: {}` takes `OU`.' },
    ),
    header: optionalSection(
      {
        name: text({
          description:
            'Header with the groups that proxies in `server.trustedProxies` set, and remove from what clients send.',
          format: 'headerName',
        }),
        delimiter: text({ description: 'What stands between groups.', default: ',' }),
      },
      { description: 'A header of trusted proxies.' },
    ),
    ldap: optionalSection(
      {
        configPath: text({
          description:
            'YAML file of the LDAP server, as `authorization.ldapConfigPath`: how to connect, and how to find a user.',
          format: 'path',
        }),
        groupBaseDn: text({
          description:
            "DN under which groups are searched that have the user's DN as a member. Unset, the names in the user's `ldapGroupMemberAttribute` count.",
          default: null,
        }),
        groupFilter: text({ description: 'Filter of groups, e.g. (cn=data-*).', default: '(objectClass=*)' }),
        memberAttribute: text({
          description: 'Attribute of a group that holds the DNs of its members.',
          default: 'member',
        }),
        nameAttribute: text({ description: 'Attribute of a group that holds its name.', default: 'cn' }),
        nested: flag({
          description: 'Whether groups of groups count, ten levels deep; with `groupBaseDn` only.',
          default: true,
        }),
      },
      { description: 'An LDAP server.' },
    ),
    file: optionalSection(
      {
        path: text({
          description: "Group file in the form of Trino's: lines `group:user1,user2`. Followed while running.",
          aliases: ['file.group-file'],
          format: 'path',
        }),
        refreshPeriod: duration({
          description: 'Time between two looks at the file.',
          default: 5_000,
          minimum: 100,
          maximum: 3_600_000,
          aliases: ['file.refresh-period'],
        }),
      },
      { description: 'A group file.' },
    ),
  },
  { description: 'Where groups of users come from, for rules, limits and roles. Without it nobody is in a group.' },
);
