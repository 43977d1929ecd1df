import { ROUTING_RULE } from '../../kinds/routingRule/spec.ts';
import { DEFAULT_STRATEGY, strategies, strategyNames } from '../../model/strategies.ts';
import { choice, duration, flag, integer, listOf, mapOf, optionalSection, section, size, text } from '../fields.ts';
import { tokenIssuer } from './tokenIssuers.ts';

const strategyList = Object.entries(strategies)
  .map(([name, description]) => `\`${name}\` ${description}`)
  .join('; ');

/** `routing` (docs/routing.md). */
export const routing = section(
  {
    defaultRoutingGroup: text({
      description: 'Routing group of requests for which no group is determined; empty: they are refused.',
      default: 'adhoc',
      format: 'nameOrNothing',
    }),
    asyncTimeout: duration({
      description: 'Time until a cluster must have begun its answer; then 502.',
      default: 120_000,
      minimum: 1,
      maximum: 86_400_000,
    }),
    forwardedHeadersEnabled: flag({
      description: 'Whether requests to clusters name the client in X-Forwarded-* and Forwarded.',
      default: true,
      aliases: ['addXForwardedHeaders'],
    }),
    retrySubmissions: choice(['untilAnswered', 'untilSent'], {
      description:
        'How far a submission may have come to be repeated on another cluster: until the first byte of an answer, or, for engines that start a query at once, until the request was sent.',
      default: 'untilAnswered',
    }),
    statementErrors: choice(['protocol', 'http'], {
      description:
        "How refusals on statement paths are reported: in the engine's protocol, which clients show as the query's error, or as HTTP 403, 404 and 503.",
      default: 'protocol',
    }),
    explainHeader: flag({
      description: 'Whether a response header names rule, routing group and cluster.',
      default: false,
    }),
    ownerTakeover: duration({
      description:
        'Time without a sign of life of a cluster, unreachable or deleted, after which another cluster may own its query ids.',
      default: 600_000,
      minimum: 10_000,
      maximum: 604_800_000,
    }),
    askClusters: choice(['coordinatorId', 'off'], {
      description:
        'How the cluster of an unknown query is searched for: by the coordinatorId that all clusters report at /v1/info, or not at all. Clusters never get the request itself before one is found.',
      default: 'coordinatorId',
    }),
    cancelQueryOnDisconnect: flag({
      description: 'Whether a query is cancelled when its client goes away in the middle of an answer.',
      default: false,
    }),
    strategy: choice(strategyNames, {
      description: `How a cluster of the group is chosen: ${strategyList}.`,
      default: DEFAULT_STRATEGY,
    }),
    affinity: section(
      {
        by: text({
          description: 'What the strategy `affinity` keeps on one cluster: user, source, session, or header:NAME.',
          default: 'user',
          format: 'requestKey',
        }),
      },
      { description: 'Settings of the strategy `affinity`.' },
    ),
    groups: mapOf(
      section(
        {
          strategy: choice(strategyNames, {
            description: 'Strategy of this group; routing.strategy by default.',
            default: null,
          }),
          affinity: section(
            {
              by: text({
                description:
                  'What the strategy `affinity` keeps on one cluster of this group; routing.affinity.by by default.',
                default: null,
                format: 'requestKey',
              }),
            },
            { description: 'Settings of the strategy `affinity` for this group.' },
          ),
        },
        { description: 'Settings of one routing group.' },
      ),
      { description: 'Settings of single routing groups, by name.', default: {} },
    ),
  },
  { description: 'Which cluster takes a request, and how.' },
);

/** `routingRules` (docs/rules.md). */
export const routingRules = section(
  {
    rulesEngineEnabled: flag({
      description: `Turns the rules engine on or off; unset, it is on as soon as there is a rules file or a ${ROUTING_RULE}.`,
      default: null,
    }),
    rulesType: choice(['FILE', 'EXTERNAL'], {
      description: `Where the rules come from: a file (and ${ROUTING_RULE} resources), or an external service.`,
      default: 'FILE',
      ordinals: ['FILE', 'EXTERNAL'],
    }),
    rulesConfigPath: text({
      description: 'The rules file, where rulesType is FILE.',
      default: null,
      format: 'path',
    }),
    rulesRefreshPeriod: duration({
      description: 'Time after which the rules file is read again at the latest.',
      default: 60_000,
      minimum: 100,
      maximum: 86_400_000,
    }),
    onFileError: choice(['header', 'keepLast'], {
      description:
        'What a rules file that does not load means: its rules are absent and the header decides, or the last good ones stay.',
      default: 'header',
    }),
    onRuleError: choice(['skip', 'reject'], {
      description:
        'What a rule that fails while it runs means: the rule is skipped, or the client gets an error naming it.',
      default: 'skip',
    }),
    defaultPriority: integer({
      description:
        'Priority of rules of the rules file that have none; unset, 2147483647: they are asked last. Trino Gateway has 0. Once set, rules without priority are not warned of.',
      default: null,
      minimum: -2_147_483_648,
      maximum: 2_147_483_647,
    }),
    differenceWarnings: flag({
      description: 'Warns of what rules mean here and not in Trino Gateway, at the start, in REST and in conditions.',
      default: true,
    }),
    maxSteps: integer({
      description: 'Steps that the rules may take for one request.',
      default: 100_000,
      minimum: 100,
      maximum: 100_000_000,
    }),
    decisionTimeout: duration({
      description:
        'Processor time that the rules may take for one request. A rule that exceeds it fails; later ones are not asked.',
      default: 50,
      minimum: 1,
      maximum: 10_000,
    }),
    rulesExternalConfiguration: section(
      {
        urlPath: text({
          description: 'Address of the external rules service, where rulesType is EXTERNAL.',
          default: null,
          format: 'url',
        }),
        excludeHeaders: listOf(text({ description: 'Header name.', format: 'name' }), {
          description: 'Request headers that are not sent to the external service, in any letter case.',
          default: [],
        }),
        propagateErrors: flag({
          description: 'Whether errors answered by the external service are forwarded to clients.',
          default: false,
        }),
        sendHttpHeaders: flag({
          description: "Whether the client's headers also go as HTTP headers, for services that read them there.",
          default: true,
        }),
        emptyErrors: choice(['defaultGroup', 'ignore'], {
          description:
            'What an empty list of errors in the answer means: the default group, or no error at all. Unset, `defaultGroup`; with `protocol.productName: Trino` as in Trino Gateway: `ignore`.',
          default: null,
        }),
        failureThreshold: integer({
          description:
            'Consecutive failures after which the service is not called for a while, so that it does not delay requests.',
          default: 5,
          minimum: 1,
          maximum: 1000,
        }),
        retryAfter: duration({
          description: 'Time for which the service is left alone; then one request tries again.',
          default: 10_000,
          minimum: 100,
          maximum: 3_600_000,
        }),
      },
      { description: 'The external rules service.' },
    ),
  },
  { description: 'The rules that choose a routing group.' },
);

/** `requestAnalyzerConfig` (docs/sql-analysis.md, docs/request-user.md). */
export const requestAnalyzerConfig = section(
  {
    analyzeRequest: flag({ description: 'Makes user and query properties available to rules.', default: false }),
    maxBodySize: integer({
      description: 'Bodies of this many characters and more are not analysed; nor are those of 4,000,000 and more.',
      default: 1_000_000,
      minimum: 0,
      maximum: 2 ** 31 - 1,
    }),
    isClientsUseV2Format: flag({
      description: 'Whether bodies may be JSON with `query` and `preparedStatements`.',
      default: false,
      aliases: ['clientsUseV2Format'],
    }),
    tokenUserField: text({ description: 'Claim of a JWT that holds the user name.', default: 'email', format: 'name' }),
    oauthTokenInfoUrl: text({
      description: 'Address at which a bearer token is exchanged for user information.',
      default: null,
      format: 'url',
    }),
    jwksUrl: text({
      description: 'Keys that JWTs are verified with; a JWT that fails yields no user. Unset, claims are believed.',
      default: null,
      format: 'url',
    }),
    issuer: text({ description: 'Issuer that verified JWTs must name.', default: null }),
    audience: text({ description: 'Audience that verified JWTs must name.', default: null }),
    tokenIssuers: mapOf(
      section(
        {
          ...tokenIssuer,
          tokenUserField: text({
            description: 'Claim that holds the user name; unset, `requestAnalyzerConfig.tokenUserField`.',
            default: null,
            format: 'nameOrNothing',
          }),
          groupPrefix: text({
            description:
              'What stands before the groups that its tokens name (`userGroups.token`); unset, `{name}/`. Empty, they are groups of the same name elsewhere.',
            default: null,
          }),
        },
        { description: 'One issuer, by name.' },
      ),
      {
        description:
          'Issuers of JWTs that name users, by name: the `iss` of a token says whose keys verify it, and a token of any other issuer names nobody.',
        default: {},
      },
    ),
    trustedUserSources: listOf(
      choice(['header', 'basic', 'bearer', 'cookie'], { description: 'Source of the user name.' }),
      {
        description: 'Sources that the user is taken from; their order is always this one.',
        default: ['header', 'basic', 'bearer', 'cookie'],
      },
    ),
    kubernetesTokens: optionalSection(
      {
        audiences: listOf(text({ description: 'Audience.' }), {
          description: 'Audiences of which a token must have been issued for one; best one of the gateway alone.',
          default: [],
        }),
        timeout: duration({
          description: 'Longest time for an answer of the API server; later there is no user.',
          default: 2_000,
          minimum: 100,
          maximum: 30_000,
        }),
        cacheDuration: duration({
          description: 'Time for which an answer is believed, at most until the token ends.',
          default: 60_000,
          minimum: 1_000,
          maximum: 3_600_000,
        }),
        forward: flag({
          description: 'Whether clusters get these tokens. By default nobody but the API server does.',
          default: false,
        }),
      },
      {
        description:
          'Bearer tokens of Kubernetes service accounts, which the API server verifies (TokenReview): the service account is the user.',
      },
    ),
    clientCertificateIdentityField: text({
      description:
        'What of a verified client certificate names the user: `SUBJECT_DN`, an attribute of the subject such as `CN`, or `SAN_URI`, `SAN_EMAIL`, `SAN_DNS`. Set, the user of a certificate comes before all other sources.',
      default: null,
      format: 'name',
    }),
    clientCertificateUserMappingPattern: text({
      description:
        'Regular expression that the whole identity must match; its first group is the user. Unset, the identity is.',
      default: null,
    }),
    clientCertificateUserMappingFile: text({
      description: "JSON file of rules in the form of Trino's user mapping, in place of the pattern.",
      default: null,
      format: 'path',
    }),
    clientCertificateUserExpression: text({
      description:
        'Expression of the rules language that gives the user of a `certificate`, e.g. `certificate.CN.toLowerCase()`, in place of the three keys above.',
      default: null,
    }),
  },
  { description: 'Who asks, and what is asked.' },
);

/** Paths and cookies of proxied requests (docs/routing.md#which-requests-are-proxied). */
export const proxiedPaths = {
  extraWhitelistPaths: listOf(text({ description: 'Regular expression.', format: 'javaRegex' }), {
    description: 'Regular expressions of further paths that are proxied; they match the whole path.',
    default: [],
  }),
  additionalStatementPaths: listOf(text({ description: 'Path.', format: 'urlPath' }), {
    description: 'Further paths that take statements as /v1/statement does.',
    default: [],
  }),
  includeClusterHostInResponse: flag({
    description: "Whether a cookie of each submission's answer names the cluster's host.",
    default: false,
  }),
  proxyResponseConfiguration: section(
    {
      responseSize: size({
        description: 'Size at which answers were cut.',
        default: 32 * 1024 ** 2,
      }),
    },
    { description: 'Limits of proxied answers.', withoutEffect: 'responses are streamed, of any size' },
  ),
};
