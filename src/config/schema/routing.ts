import { ROUTING_RULE } from '../../kinds/routingRule/spec.ts';
import { DEFAULT_STRATEGY, strategies, strategyNames } from '../../model/strategies.ts';
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
  section,
  size,
  text,
} from '../fields.ts';
import { tokenIssuer } from './access.ts';

const strategyList = Object.entries(strategies)
  .map(([name, description]) => `\`${name}\` ${description}`)
  .join('; ');

/** `routing` (docs/routing.md). */
export const routing = section('Which cluster takes a request, and how.', {
  defaultRoutingGroup: text('Routing group of requests for which no group is determined; empty: they are refused.', {
    default: 'adhoc',
    format: 'nameOrNothing',
  }),
  asyncTimeout: duration('Time until a cluster must have begun its answer; then 502.', {
    default: 120_000,
    range: [1, 86_400_000],
  }),
  forwardedHeadersEnabled: flag('Whether requests to clusters name the client in X-Forwarded-* and Forwarded.', {
    default: true,
    aliases: ['addXForwardedHeaders'],
  }),
  retrySubmissions: choice(
    'How far a submission may have come to be repeated on another cluster: until the first byte of an answer, or, for engines that start a query at once, until the request was sent.',
    ['untilAnswered', 'untilSent'],
    { default: 'untilAnswered' },
  ),
  statementErrors: choice(
    "How refusals on statement paths are reported: in the engine's protocol, which clients show as the query's error, or as HTTP 403, 404 and 503.",
    ['protocol', 'http'],
    { default: 'protocol' },
  ),
  explainHeader: flag('Whether a response header names rule, routing group and cluster.', { default: false }),
  ownerTakeover: duration(
    'Time without a sign of life of a cluster, unreachable or deleted, after which another cluster may own its query ids.',
    { default: 600_000, range: [10_000, 604_800_000] },
  ),
  askClusters: choice(
    'How the cluster of an unknown query is searched for: by the coordinatorId that all clusters report at /v1/info, or not at all. Clusters never get the request itself before one is found.',
    ['coordinatorId', 'off'],
    { default: 'coordinatorId' },
  ),
  cancelQueryOnDisconnect: flag('Whether a query is cancelled when its client goes away in the middle of an answer.', {
    default: false,
  }),
  strategy: choice(`How a cluster of the group is chosen: ${strategyList}.`, strategyNames, {
    default: DEFAULT_STRATEGY,
  }),
  affinity: section('Settings of the strategy `affinity`.', {
    by: text('What the strategy `affinity` keeps on one cluster: user, source, session, or header:NAME.', {
      default: 'user',
      format: 'requestKey',
    }),
  }),
  groups: mapOf(
    'Settings of single routing groups, by name.',
    section('Settings of one routing group.', {
      strategy: choice('Strategy of this group; routing.strategy by default.', strategyNames),
      affinity: section('Settings of the strategy `affinity` for this group.', {
        by: text('What the strategy `affinity` keeps on one cluster of this group; routing.affinity.by by default.', {
          format: 'requestKey',
        }),
      }),
    }),
  ),
});

/** `sizeClasses` (docs/size-classes.md). */
export const sizeClasses = section('Classes of queries by what runs of their statement took in the last five days.', {
  measure: choice(
    'What the classes are made of: the duration of queries, or their processor time, which does not depend on the load of clusters.',
    ['elapsed', 'cpu'],
    { default: 'elapsed' },
  ),
  mediumFrom: duration('From here on a query is of class M; below, S.', { default: 10_000, range: [1, 86_400_000] }),
  largeFrom: duration('From here on a query is of class L.', { default: 120_000, range: [1, 86_400_000] }),
  refreshInterval: duration('Time between two refreshes of the estimates from the history.', {
    default: 300_000,
    range: [1_000, 3_600_000],
  }),
});

/** `routingRules` (docs/rules.md). */
export const routingRules = section('The rules that choose a routing group.', {
  rulesEngineEnabled: flag(
    `Turns the rules engine on or off; unset, it is on as soon as there is a rules file or a ${ROUTING_RULE}.`,
  ),
  rulesType: choice(
    `Where the rules come from: a file (and ${ROUTING_RULE} resources), or an external service.`,
    ['FILE', 'EXTERNAL'],
    { default: 'FILE', ordinals: ['FILE', 'EXTERNAL'] },
  ),
  rulesConfigPath: text('The rules file, where rulesType is FILE.', { format: 'path' }),
  rulesRefreshPeriod: duration('Time after which the rules file is read again at the latest.', {
    default: 60_000,
    range: [100, 86_400_000],
  }),
  onFileError: choice(
    'What a rules file that does not load means: its rules are absent and the header decides, or the last good ones stay.',
    ['header', 'keepLast'],
    { default: 'header' },
  ),
  onRuleError: choice(
    'What a rule that fails while it runs means: the rule is skipped, or the client gets an error naming it.',
    ['skip', 'reject'],
    { default: 'skip' },
  ),
  defaultPriority: integer(
    'Priority of rules of the rules file that have none; unset, 2147483647: they are asked last. Trino Gateway has 0. Once set, rules without priority are not warned of.',
    { range: [-2_147_483_648, 2_147_483_647] },
  ),
  differenceWarnings: flag(
    'Warns of what rules mean here and not in Trino Gateway, at the start, in REST and in conditions.',
    { default: true },
  ),
  maxSteps: integer('Steps that the rules may take for one request.', { default: 100_000, range: [100, 100_000_000] }),
  decisionTimeout: duration(
    'Processor time that the rules may take for one request. A rule that exceeds it fails; later ones are not asked.',
    { default: 50, range: [1, 10_000] },
  ),
  rulesExternalConfiguration: section('The external rules service.', {
    urlPath: text('Address of the external rules service, where rulesType is EXTERNAL.', { format: 'url' }),
    excludeHeaders: listOf(
      'Request headers that are not sent to the external service, in any letter case.',
      each('name'),
    ),
    propagateErrors: flag('Whether errors answered by the external service are forwarded to clients.', {
      default: false,
    }),
    sendHttpHeaders: flag("Whether the client's headers also go as HTTP headers, for services that read them there.", {
      default: true,
    }),
    emptyErrors: choice(
      'What an empty list of errors in the answer means: the default group, or no error at all. Unset, `defaultGroup`; with `protocol.productName: Trino` as in Trino Gateway: `ignore`.',
      ['defaultGroup', 'ignore'],
    ),
    failureThreshold: integer(
      'Consecutive failures after which the service is not called for a while, so that it does not delay requests.',
      { default: 5, range: [1, 1000] },
    ),
    retryAfter: duration('Time for which the service is left alone; then one request tries again.', {
      default: 10_000,
      range: [100, 3_600_000],
    }),
  }),
});

/** `requestAnalyzerConfig` (docs/sql-analysis.md, docs/request-user.md). */
export const requestAnalyzerConfig = section('Who asks, and what is asked.', {
  analyzeRequest: flag('Makes user and query properties available to rules.', { default: false }),
  maxBodySize: integer(
    'Bodies of this many characters and more are not analysed; nor are those of 4,000,000 and more.',
    { default: 1_000_000, range: [0, 2 ** 31 - 1] },
  ),
  isClientsUseV2Format: flag('Whether bodies may be JSON with `query` and `preparedStatements`.', {
    default: false,
    aliases: ['clientsUseV2Format'],
  }),
  tokenUserField: text('Claim of a JWT that holds the user name.', { default: 'email', format: 'name' }),
  oauthTokenInfoUrl: text('Address at which a bearer token is exchanged for user information.', { format: 'url' }),
  jwksUrl: text('Keys that JWTs are verified with; a JWT that fails yields no user. Unset, claims are believed.', {
    format: 'url',
  }),
  issuer: text('Issuer that verified JWTs must name.'),
  audience: text('Audience that verified JWTs must name.'),
  tokenIssuers: mapOf(
    'Issuers of JWTs that name users, by name: the `iss` of a token says whose keys verify it, and a token of any other issuer names nobody.',
    section('One issuer, by name.', {
      ...tokenIssuer,
      tokenUserField: text('Claim that holds the user name; unset, `requestAnalyzerConfig.tokenUserField`.', {
        format: 'nameOrNothing',
      }),
      groupPrefix: text(
        'What stands before the groups that its tokens name (`userGroups.token`); unset, `{name}/`. Empty, they are groups of the same name elsewhere.',
      ),
    }),
  ),
  trustedUserSources: listOf(
    'Sources that the user is taken from; their order is always this one.',
    oneOf(['header', 'basic', 'bearer', 'cookie']),
    { default: ['header', 'basic', 'bearer', 'cookie'] },
  ),
  kubernetesTokens: optionalSection(
    'Bearer tokens of Kubernetes service accounts, which the API server verifies (TokenReview): the service account is the user.',
    {
      audiences: listOf(
        'Audiences of which a token must have been issued for one; best one of the gateway alone.',
        each(),
      ),
      timeout: duration('Longest time for an answer of the API server; later there is no user.', {
        default: 2_000,
        range: [100, 30_000],
      }),
      cacheDuration: duration('Time for which an answer is believed, at most until the token ends.', {
        default: 60_000,
        range: [1_000, 3_600_000],
      }),
      forward: flag('Whether clusters get these tokens. By default nobody but the API server does.', {
        default: false,
      }),
    },
  ),
  clientCertificateIdentityField: text(
    'What of a verified client certificate names the user: `SUBJECT_DN`, an attribute of the subject such as `CN`, or `SAN_URI`, `SAN_EMAIL`, `SAN_DNS`. Set, the user of a certificate comes before all other sources.',
    { format: 'name' },
  ),
  clientCertificateUserMappingPattern: text(
    'Regular expression that the whole identity must match; its first group is the user. Unset, the identity is.',
  ),
  clientCertificateUserMappingFile: text(
    "JSON file of rules in the form of Trino's user mapping, in place of the pattern.",
    { format: 'path' },
  ),
  clientCertificateUserExpression: text(
    'Expression of the rules language that gives the user of a `certificate`, e.g. `certificate.CN.toLowerCase()`, in place of the three keys above.',
  ),
});

/** Paths and cookies of proxied requests (docs/routing.md#which-requests-are-proxied). */
export const proxiedPaths = {
  extraWhitelistPaths: listOf(
    'Regular expressions of further paths that are proxied; they match the whole path.',
    each('javaRegex'),
  ),
  additionalStatementPaths: listOf('Further paths that take statements as /v1/statement does.', each('urlPath')),
  includeClusterHostInResponse: flag("Whether a cookie of each submission's answer names the cluster's host.", {
    default: false,
  }),
  proxyResponseConfiguration: section(
    'Limits of proxied answers.',
    {
      responseSize: size('Size at which answers were cut.', { default: 32 * 1024 ** 2 }),
    },
    { withoutEffect: 'responses are streamed, of any size' },
  ),
};
