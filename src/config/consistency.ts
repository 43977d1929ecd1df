import type { Problem } from '../model/errors.ts';
import { namesOneOf, parseHost } from '../model/http.ts';
import { type GroupSourceName, groupSourceNames } from '../model/membership.ts';
import { leastRequestMemory } from './derived.ts';
import type { GatewayConfig } from './gatewayConfig.ts';
import { isLoopback, THIS_MACHINE } from './openAccess.ts';
import { formatSize } from './units.ts';

type Authentication = GatewayConfig['authentication'];

/** An OpenID provider at which users log in, as it is configured. */
export type ConfiguredProvider = NonNullable<NonNullable<Authentication>['oauth']>;

/** Characters of a secret that signs or encrypts: as many as an HMAC of SHA-256 has bytes (RFC 7518 §3.2). */
export const MIN_SECRET = 32;

/** Name under which `authentication.oauth` is one of the providers. */
export const FIRST_PROVIDER = 'oauth';

/** Kinds of health checks that log in to the cluster (docs/health.md#credentials). */
const monitorsWithUser = ['METRICS', 'JDBC', 'JMX', 'UI_API'];

/** Sources of groups that read requests, and look no user up. */
const groupsOfRequests: ReadonlySet<GroupSourceName> = new Set([
  ...(['token', 'userInfo', 'tokenReview', 'certificate', 'header'] as const),
]);

/** All providers at which users log in, by the path of their keys: `authentication.oauth` first. */
export function openidProviders(authentication: Authentication): readonly (readonly [string, ConfiguredProvider])[] {
  if (authentication === null) return [];
  const { oauth, providers } = authentication;
  return [
    ...(oauth === null ? [] : [['authentication.oauth', oauth] as const]),
    ...Object.entries(providers).map(([name, provider]) => [`authentication.providers.${name}`, provider] as const),
  ];
}

/** True if the configuration takes users from client certificates. */
export function namesUsersByCertificate({
  requestAnalyzerConfig: { clientCertificateIdentityField, clientCertificateUserExpression },
}: Pick<GatewayConfig, 'requestAnalyzerConfig'>): boolean {
  return clientCertificateIdentityField !== null || clientCertificateUserExpression !== null;
}

/** A mistake that concerns several keys. `cause` is the path of the key that causes it at `field`; missing for none. */
export type CrossProblem = Problem & { readonly cause?: string };

/** Mistakes that concern several keys: what one key requires of another. */
export function crossChecks(config: GatewayConfig): readonly CrossProblem[] {
  const problems: CrossProblem[] = [];
  const report: Report = (field, finding) => {
    if (finding !== false) problems.push({ field, ...(typeof finding === 'string' ? { message: finding } : finding) });
  };
  for (const [field, findingsOf] of Object.entries(checksOfKeys))
    for (const finding of [findingsOf(config)].flat()) report(field, finding);
  const checks = [checkPorts, checkGroupSources, checkIssuers, checkProviders, checkMetrics, checkStatementPaths];
  for (const check of checks) check(config, report);
  return problems;
}

type Report = (field: string, finding: Finding) => void;
/** False: no mistake. */
type Finding = Omit<CrossProblem, 'field'> | string | false;

/** A mistake with the message of the template; its first value is the key that causes it. */
const dueTo = (texts: TemplateStringsArray, cause: string, ...others: readonly string[]) => ({
  message: String.raw({ raw: texts }, cause, ...others),
  cause,
});

const authoritiesNeeded = (cause: string, otherwise = '') =>
  dueTo`must name the authorities of client certificates (PEM), with http-server.https.enabled: true, as ${cause} is given${otherwise}`;
const unverified = 'needs requestAnalyzerConfig.jwksUrl: without it no JWT is verified';
const userByExpression = dueTo`must be left out, as ${'requestAnalyzerConfig.clientCertificateUserExpression'} gives the user`;
const verifiers = 'requestAnalyzerConfig.jwksUrl, oauthTokenInfoUrl or clientCertificateIdentityField';
const tooShort = `must have at least ${MIN_SECRET} characters`;

/** Checks by the key at which their messages are reported. */
const checksOfKeys: Readonly<Record<string, (config: GatewayConfig) => Finding | readonly Finding[]>> = {
  'resources.directory': ({ resources: { source, directory } }) =>
    source === 'directory' && directory === null && dueTo`must be given, as ${'resources.source'} is directory`,
  'resources.namespaces': ({ resources: { namespace, namespaces } }) => [
    namespace !== null &&
      namespaces.length > 0 &&
      'must be left out where resources.namespace is set; add that namespace to the list',
    namespaces.includes('*') && 'must hold names of namespaces; set resources.namespace to * for all of them',
  ],
  'resources.writeNamespace': ({ resources: { namespaces, writeNamespace } }) =>
    namespaces.length > 0 &&
    writeNamespace !== null &&
    !namespaces.includes(writeNamespace) &&
    'must be one of resources.namespaces',
  'resources.webhook.enabled': ({ resources: { source, webhook } }) =>
    webhook.enabled && source !== 'kubernetes' && 'needs resources.source: kubernetes',
  'server.requestMemory': ({ server: { requestMemory }, requestAnalyzerConfig: { maxBodySize } }) => {
    const least = leastRequestMemory(maxBodySize);
    if (requestMemory === null || requestMemory >= least) return false;
    return `must be at least ${formatSize(least)}, so that submissions of up to requestAnalyzerConfig.maxBodySize have room`;
  },
  'serverConfig.http-server.http.enabled': ({ serverConfig }) =>
    !serverConfig['http-server.http.enabled'] &&
    !serverConfig['http-server.https.enabled'] &&
    dueTo`must be true, as ${'serverConfig.http-server.https.enabled'} is not: nothing would be served`,
  'serverConfig.http-server.https.keystore.path': ({ serverConfig }) =>
    serverConfig['http-server.https.enabled'] &&
    serverConfig['http-server.https.keystore.path'] === null &&
    dueTo`must be given, as ${'serverConfig.http-server.https.enabled'} is true`,
  'server.headersTimeout': ({ server: { headersTimeout, requestTimeout } }) =>
    headersTimeout > requestTimeout && `must not be longer than server.requestTimeout, ${requestTimeout}ms`,
  'sizeClasses.largeFrom': ({ sizeClasses: { mediumFrom, largeFrom } }) =>
    largeFrom <= mediumFrom && `must be longer than sizeClasses.mediumFrom, ${mediumFrom}ms`,
  'requestAnalyzerConfig.kubernetesTokens.audiences': ({ requestAnalyzerConfig: { kubernetesTokens } }) =>
    kubernetesTokens?.audiences.length === 0 &&
    'must name an audience that tokens are issued for, e.g. [engine-gateway]',
  'requestAnalyzerConfig.issuer': ({ requestAnalyzerConfig: { jwksUrl, issuer, tokenIssuers } }) => [
    jwksUrl !== null &&
      issuer === null &&
      Object.keys(tokenIssuers).length > 0 &&
      dueTo`must be given, as ${'requestAnalyzerConfig.tokenIssuers'} is: each token is verified by the keys of the issuer that it names, and jwksUrl has those of this one`,
    jwksUrl === null && issuer !== null && unverified,
  ],
  'requestAnalyzerConfig.audience': ({ requestAnalyzerConfig: { jwksUrl, audience } }) =>
    jwksUrl === null && audience !== null && unverified,
  'requestAnalyzerConfig.clientCertificateIdentityField': (config) => {
    const { authentication, clientCertificateJwtAuthentication: tokens, userGroups } = config;
    const { clientCertificateUserExpression: expression, clientCertificateIdentityField: field } =
      config.requestAnalyzerConfig;
    const [mapping, second] = certificateMappings(config);
    if (expression !== null) return field !== null && userByExpression;
    if (field !== null) return false;
    const mistake = (cause: string, is = 'is') => dueTo`must be given, e.g. SUBJECT_DN or CN, as ${cause} ${is}`;
    return [
      mapping !== undefined && second === undefined && mistake(mapping),
      tokens !== null && mistake('clientCertificateJwtAuthentication'),
      userGroups !== null && userGroups.certificate !== null && mistake('userGroups.certificate'),
      authentication?.clientCertificates === true && mistake('authentication.clientCertificates', 'is true'),
    ];
  },
  'requestAnalyzerConfig.clientCertificateUserMappingPattern': ({ requestAnalyzerConfig: given }) =>
    given.clientCertificateUserExpression !== null &&
    given.clientCertificateUserMappingPattern !== null &&
    userByExpression,
  'requestAnalyzerConfig.clientCertificateUserMappingFile': (config) => {
    const { clientCertificateUserExpression, clientCertificateUserMappingFile } = config.requestAnalyzerConfig;
    if (clientCertificateUserExpression !== null) return clientCertificateUserMappingFile !== null && userByExpression;
    const [mapping, second] = certificateMappings(config);
    return second !== undefined && dueTo`must be left out, as ${mapping as string} is given`;
  },
  'clientCertificateJwtAuthentication.jwtPrincipalClaim': ({ clientCertificateJwtAuthentication: tokens }) =>
    tokens !== null &&
    ['iss', 'aud', 'exp', 'nbf', 'iat', 'jti'].includes(tokens.jwtPrincipalClaim) &&
    `must not be ${tokens.jwtPrincipalClaim}, which means something else in a JWT; write sub or a name such as preferred_username`,
  'serverConfig.http-server.https.truststore.path': (config) => {
    const { server, serverConfig, requestAnalyzerConfig } = config;
    const authorities = serverConfig['http-server.https.truststore.path'];
    if (serverConfig['http-server.https.enabled'] && authorities !== null) return false;
    if (server.clientCertificates !== null) return authoritiesNeeded('server.clientCertificates');
    if (!namesUsersByCertificate(config) || server.clientCertificateHeader !== null) return false;
    const key = requestAnalyzerConfig.clientCertificateUserExpression === null ? 'IdentityField' : 'UserExpression';
    const otherwise = '; or set server.clientCertificateHeader where a proxy verifies them';
    return authoritiesNeeded(`requestAnalyzerConfig.clientCertificate${key}`, otherwise);
  },
  'server.trustedProxies': ({ server: { clientCertificateHeader, trustedProxies }, userGroups }) =>
    trustedProxies.length === 0 && [
      clientCertificateHeader !== null &&
        dueTo`must name the proxies that verify client certificates, as ${'server.clientCertificateHeader'} is given`,
      userGroups !== null && userGroups.header !== null && dueTo`must name the proxies that set ${'userGroups.header'}`,
    ],
  'userMapping.pattern': ({ userMapping }) =>
    userMapping?.pattern === null &&
    userMapping.file === null &&
    'must be given, e.g. (.*)@example\\.com, or userMapping.file',
  'userMapping.file': ({ userMapping }) =>
    userMapping !== null &&
    userMapping.pattern !== null &&
    userMapping.file !== null &&
    dueTo`must be left out, as ${'userMapping.pattern'} is given`,
  'userMapping.sources': ({ userMapping }) => userMapping?.sources.length === 0 && 'must name a source of names',
  'userMapping.rewriteUserHeader': (config) =>
    config.userMapping?.rewriteUserHeader === true &&
    !verifiesUsers(config) &&
    `must be false, as nothing verifies users: set ${verifiers}`,
  userGroups({ userGroups, authorization }) {
    const [role] = Object.entries(authorization?.groupRoles ?? {}).filter(([, groups]) => groups.length > 0);
    return (
      userGroups === null && role !== undefined && dueTo`must be given, as ${`authorization.groupRoles.${role[0]}`} is`
    );
  },
  'userGroups.ldap.groupFilter': ({ userGroups }) =>
    !/^\(.*\)$/s.test(userGroups?.ldap?.groupFilter ?? '()') &&
    'must be a filter in parentheses, e.g. (objectClass=groupOfNames)',
  'userGroups.claimedUsers': (config) => {
    const lookups = configuredGroupSources(config).filter((name) => !groupsOfRequests.has(name));
    if (lookups.length === 0 || config.userGroups?.claimedUsers.length !== 0 || verifiesUsers(config)) return false;
    return `must be given, as nothing verifies users and ${lookups.join(', ')} would be asked about nobody: name the sources whose names are to be believed, e.g. [header, basic], or set ${verifiers}`;
  },
  'requestAnalyzerConfig.jwksUrl': (config) =>
    configuredGroupSources(config).includes('token') &&
    !verifiesTokens(config) &&
    !config.userGroups?.claimedUsers.some((name) => name === 'bearer' || name === 'cookie') &&
    dueTo`must be given, as ${'userGroups.token'} is: groups are taken from verified JWTs; or name bearer in userGroups.claimedUsers to believe any`,
  'requestAnalyzerConfig.oauthTokenInfoUrl': (config) =>
    configuredGroupSources(config).includes('userInfo') &&
    config.requestAnalyzerConfig.oauthTokenInfoUrl === null &&
    dueTo`must be given, as ${'userGroups.userInfo'} is: it is what tokens are exchanged at`,
  'requestAnalyzerConfig.kubernetesTokens': (config) =>
    configuredGroupSources(config).includes('tokenReview') &&
    config.requestAnalyzerConfig.kubernetesTokens === null &&
    dueTo`must be given, as ${'userGroups.tokenReview'} is: it says whose tokens are reviewed`,
  // In Kubernetes every cluster may name a Secret of its own.
  backendState: ({ clusterStatsConfiguration: { monitorType }, backendState, resources }) =>
    monitorsWithUser.includes(monitorType) &&
    backendState === null &&
    resources.source !== 'kubernetes' &&
    dueTo`must be given with a username, as ${'clusterStatsConfiguration.monitorType'} is ${monitorType}`,
  'gatewayCookieConfiguration.cookieSigningSecret': ({
    gatewayCookieConfiguration: { enabled, cookieSigningSecret },
  }) =>
    enabled &&
    (cookieSigningSecret ?? '') === '' &&
    dueTo`must be given, as ${'gatewayCookieConfiguration.enabled'} is true`,
  'admission.secret': ({ admission: { secret } }) => secret !== null && secret.length < MIN_SECRET && tooShort,
  'queryEvents.secrets': ({ queryEvents: { secrets } }) =>
    Object.values(secrets).some(({ text }) => text.length < MIN_SECRET) && `${tooShort} each`,
  'server.address': ({ authentication, server }) =>
    authentication === null &&
    !isLoopback(server.address) &&
    dueTo`is reached from other machines, and nothing says who may call: configure "${'authentication'}", or add the line "authentication: none" to let every call pass, or write ${THIS_MACHINE}`,
  'authentication.session.secret': ({ authentication }) => {
    if (authentication === null) return false;
    const { session, form, providers } = authentication;
    if (session.secret !== null) return session.secret.text.length < MIN_SECRET && tooShort;
    // A provider knows its client secret, and could sign sessions of all users with a key that is made of it.
    return (
      form === null &&
      Object.keys(providers).length > 0 &&
      dueTo`must be given (32 characters or more, the same on all replicas), as ${'authentication.providers'} is and there is no key pair of authentication.form`
    );
  },
  'authentication.session.previousSecrets': ({ authentication }) =>
    authentication?.session.previousSecrets.some(({ text }) => text !== '' && text.length < MIN_SECRET) === true &&
    `${tooShort} each, or none`,
  'authentication.form.order': ({ authentication }) => {
    if (!authentication?.form) return false;
    const { order, ldapConfigPath } = authentication.form;
    if (order.length === 0) return 'must name ldap, presetUsers or both';
    return [
      new Set(order).size < order.length && 'must name each of ldap and presetUsers once',
      ldapConfigPath !== null &&
        !order.includes('ldap') &&
        dueTo`must name ldap, as ${'authentication.form.ldapConfigPath'} is given`,
    ];
  },
};

/** Keys of the mappings of certificates that are given. */
function certificateMappings({ requestAnalyzerConfig }: GatewayConfig): readonly string[] {
  const keys = ['clientCertificateUserMappingPattern', 'clientCertificateUserMappingFile'] as const;
  return keys.filter((key) => requestAnalyzerConfig[key] !== null).map((key) => `requestAnalyzerConfig.${key}`);
}

/** True if anything states more of users than what clients claim. */
function verifiesUsers(config: GatewayConfig): boolean {
  const { oauthTokenInfoUrl, kubernetesTokens } = config.requestAnalyzerConfig;
  const isAsked = oauthTokenInfoUrl !== null || kubernetesTokens !== null;
  return isAsked || verifiesTokens(config) || namesUsersByCertificate(config);
}

/** True if JWTs of requests are verified. */
function verifiesTokens({ requestAnalyzerConfig: { jwksUrl, tokenIssuers } }: GatewayConfig): boolean {
  return jwksUrl !== null || Object.keys(tokenIssuers).length > 0;
}

function configuredGroupSources({ userGroups }: GatewayConfig): readonly GroupSourceName[] {
  return groupSourceNames.filter((name) => userGroups !== null && userGroups[name] !== null);
}

function checkPorts({ server, serverConfig }: GatewayConfig, report: Report): void {
  const ports: (readonly [string, number])[] = [];
  for (const protocol of ['http', 'https'] as const) {
    const port = serverConfig[`http-server.${protocol}.port`];
    if (serverConfig[`http-server.${protocol}.enabled`])
      ports.push([`serverConfig.http-server.${protocol}.port`, port]);
  }
  if (server.adminPort !== null) ports.push(['server.adminPort', server.adminPort]);
  const keys = new Map<number, string>();
  for (const [key, port] of ports) {
    const other = keys.get(port);
    if (other !== undefined && port !== 0) report(key, `must differ from ${other}, which is ${port} too`);
    keys.set(port, key);
  }
}

/** That each source of groups is configured and asked. */
function checkGroupSources(config: GatewayConfig, report: Report): void {
  const { userGroups } = config;
  if (userGroups === null) return;
  const configured = configuredGroupSources(config);
  if (configured.length === 0) {
    report('userGroups', `must have a group of keys for a source: ${groupSourceNames.join(', ')}`);
  }
  for (const name of new Set(userGroups.sources ?? [])) {
    if (!configured.includes(name))
      report(`userGroups.${name}`, dueTo`must be given, as ${'userGroups.sources'} names it`);
  }
  for (const name of configured) {
    if (userGroups.sources?.includes(name) !== false) continue;
    const cause = `userGroups.${name}`;
    report('userGroups.sources', { message: `must name ${name}, as ${cause} is given`, cause });
  }
  for (const name of ['token', 'userInfo', 'header'] as const) {
    if (userGroups[name]?.delimiter !== '') continue;
    report(`userGroups.${name}.delimiter`, 'must not be empty; "," is the default');
  }
}

interface IssuerKeys {
  readonly issuer: string | null;
  readonly redirectUrl?: string | null;
  readonly roles?: object | null;
  readonly audiences: readonly string[] | null;
  readonly algorithms?: readonly string[];
}

/**
 * That an issuer can be distinguished from every other one, and gives no roles but its own; that responses of a
 * provider come to an address of its own.
 */
function checkIssuers({ authentication, requestAnalyzerConfig }: GatewayConfig, report: Report): void {
  const { oauth = null, providers = {}, tokenIssuers = {} } = authentication ?? {};
  const { jwksUrl, issuer } = requestAnalyzerConfig;
  const ofApi = new Map<string, string | null>(oauth === null ? [] : [['authentication.oauth', oauth.issuer]]);
  const ofRequests = new Map<string, string | null>(jwksUrl === null ? [] : [['requestAnalyzerConfig', issuer]]);
  const maps: [string, Readonly<Record<string, IssuerKeys>>, Map<string, string | null>][] = [
    ['authentication.providers', providers, ofApi],
    ['authentication.tokenIssuers', tokenIssuers, ofApi],
    ['requestAnalyzerConfig.tokenIssuers', requestAnalyzerConfig.tokenIssuers, ofRequests],
  ];
  for (const [map, issuers, known] of maps) {
    for (const [name, keys] of Object.entries(issuers)) {
      const path = `${map}.${name}`;
      known.set(path, keys.issuer);
      if (issuers === tokenIssuers && Object.hasOwn(providers, name) && nameProblem(name) === null) {
        report(path, `must have another name than authentication.providers.${name}`);
      }
      checkIssuer(path, name, keys, report);
    }
  }
  checkDistinct(ofApi, report);
  checkDistinct(ofRequests, report);
}

/** Names stand in callback URLs, sessions and before users' names. */
function nameProblem(name: string): string | null {
  if (name === FIRST_PROVIDER) return `must have another name: ${FIRST_PROVIDER} is that of authentication.oauth`;
  if (/^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(name)) return null;
  return 'must have a name of lower-case letters, digits and "-" that begins with a letter, at most 63';
}

function checkIssuer(path: string, name: string, keys: IssuerKeys, report: Report): void {
  const { redirectUrl, roles, audiences, algorithms } = keys;
  const problem = nameProblem(name);
  if (problem !== null) {
    report(path, problem);
    return;
  }
  if (roles === null) {
    const example = 'which privileges of its tokens give which role, such as {user: .*}; {} gives none';
    report(`${path}.roles`, `must be given: ${example}`);
  }
  const callback = `/oidc/callback/${name}`;
  const url = URL.parse(redirectUrl ?? '');
  if (url !== null && !(url.pathname.endsWith(callback) && url.search === '' && url.hash === '')) {
    const message = `must end with ${callback}, which takes the answers of this provider alone; register it there as well`;
    report(`${path}.redirectUrl`, message);
  }
  // Providers have no algorithms, and audiences by default.
  if (algorithms === undefined) return;
  if (audiences?.length === 0) {
    report(`${path}.audiences`, 'must name an audience, which its tokens for this gateway have');
  }
  if (algorithms.length === 0) {
    report(`${path}.algorithms`, 'must name an algorithm, e.g. RS256; left out, all are accepted');
  }
}

/** Reports issuers of one name: it selects the keys that verify a token. */
function checkDistinct(issuers: ReadonlyMap<string, string | null>, report: Report): void {
  const paths = new Map<string, string>();
  for (const [path, issuer] of issuers) {
    if (issuer === null) continue;
    const key = issuer.replace(/\/$/, '');
    const other = paths.get(key);
    if (other === undefined) paths.set(key, path);
    else report(`${path}.issuer`, `must differ from ${other}.issuer: a token's iss says whose it is`);
  }
}

/** Endpoints of providers, and the hosts of their callbacks: the response to a login is only taken where the pages are. */
function checkProviders({ server: { adminHosts }, authentication }: GatewayConfig, report: Report): void {
  const hosts = adminHosts.map(parseHost).filter((host) => host !== null);
  const endpoints = ['authorizationEndpoint', 'tokenEndpoint', 'jwkEndpoint'] as const;
  for (const [path, provider] of openidProviders(authentication)) {
    const redirectHost = URL.parse(provider.redirectUrl ?? '')?.host;
    const host = redirectHost === undefined ? null : parseHost(redirectHost);
    if (adminHosts.length > 0 && redirectHost !== undefined && (host === null || !namesOneOf(hosts, host))) {
      report(`${path}.redirectUrl`, `must have one of server.adminHosts as its host, ${adminHosts.join(' or ')}`);
    }
    const first = endpoints.find((key) => provider[key] !== null);
    if (first === undefined) continue;
    for (const key of endpoints.filter((each) => provider[each] === null)) {
      const message = `must be given, as ${first} is; without all three they are discovered from the issuer`;
      report(`${path}.${key}`, { message, cause: `${path}.${first}` });
    }
    if (provider.logoutRedirectUrl === null) continue;
    const message = `must be left out, as ${first} is given: where the provider ends its sessions is discovered from the issuer`;
    report(`${path}.logoutRedirectUrl`, { message, cause: `${path}.${first}` });
  }
}

function checkMetrics({ monitor: { metricMinimumValues, metricMaximumValues } }: GatewayConfig, report: Report): void {
  for (const [metric, least] of Object.entries(metricMinimumValues)) {
    // NaN is neither less nor more.
    if (!((metricMaximumValues[metric] ?? Number.NaN) < least)) continue;
    report(`monitor.metricMaximumValues.${metric}`, `must be at least ${least}, the metric's metricMinimumValues`);
  }
}

/** Statement paths are absolute, and none is a prefix of another or under /v1/statement, as in Trino Gateway. */
function checkStatementPaths({ additionalStatementPaths }: GatewayConfig, report: Report): void {
  const previousPaths: string[] = ['/v1/statement'];
  for (const [index, path] of additionalStatementPaths.entries()) {
    const cut = path.replace(/\/+$/, '');
    const clash = previousPaths.find((other) => `${cut}/`.startsWith(`${other}/`) || `${other}/`.startsWith(`${cut}/`));
    const field = `additionalStatementPaths[${index}]`;
    if (cut === '') report(field, 'must name a path below "/"');
    else if (clash !== undefined) report(field, `must not lie under or above the statement path ${clash}`);
    previousPaths.push(cut);
  }
}
