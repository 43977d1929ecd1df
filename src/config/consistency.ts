import type { Problem } from '../model/errors.ts';
import { type GroupSourceName, groupSourceNames } from '../model/membership.ts';
import { namesOneOf, parseHost } from '../model/requestHost.ts';
import type { GatewayConfig } from './gatewayConfig.ts';
import { type ConfiguredProvider, checkIssuers, openidProviders } from './issuerChecks.ts';
import { isLoopback, THIS_MACHINE } from './openAccess.ts';
import { leastRequestMemory } from './requestMemory.ts';
import { formatSize } from './units.ts';

/** A mistake at a key that results from the value of another key. */
export interface CrossProblem extends Problem {
  /** The key whose value requires the field; its line is reported where the file does not have the field. */
  readonly cause?: string;
}

type Report = (field: string, message: string, cause?: string) => void;

/** Kinds of health checks that log in to the cluster (docs/health.md#credentials). */
const monitorsWithUser = ['METRICS', 'JDBC', 'JMX', 'UI_API'];

/** Mistakes that concern several keys: what one key requires of another. */
export function crossChecks(config: GatewayConfig): readonly CrossProblem[] {
  const problems: CrossProblem[] = [];
  const report: Report = (field, message, cause) =>
    problems.push({ field, message, ...(cause === undefined ? {} : { cause }) });
  for (const check of checks) check(config, report);
  return problems;
}

/** Characters of a secret that signs or encrypts: as many as an HMAC of SHA-256 has bytes (RFC 7518 §3.2). */
export const MIN_SECRET = 32;

const checks: readonly ((config: GatewayConfig, report: Report) => void)[] = [
  checkResources,
  checkPorts,
  checkAdminHosts,
  checkRequestMemory,
  checkTls,
  checkTimes,
  checkVerification,
  checkIssuers,
  checkClientCertificates,
  checkUserMapping,
  checkUserGroups,
  checkMonitor,
  checkStatementPaths,
  checkCookies,
  checkAdmission,
  checkAuthentication,
];

function checkResources({ resources }: GatewayConfig, report: Report): void {
  if (resources.source === 'directory' && resources.directory === null) {
    report('resources.directory', 'must be given, as resources.source is directory', 'resources.source');
  }
  const { namespace, namespaces, writeNamespace } = resources;
  if (namespaces.length === 0) return;
  if (namespace !== null) {
    report('resources.namespaces', 'must be left out where resources.namespace is set; add that namespace to the list');
  }
  if (namespaces.includes('*')) {
    report('resources.namespaces', 'must hold names of namespaces; set resources.namespace to * for all of them');
  }
  if (writeNamespace !== null && !namespaces.includes(writeNamespace)) {
    report('resources.writeNamespace', 'must be one of resources.namespaces', 'resources.namespaces');
  }
}

function checkRequestMemory({ server, requestAnalyzerConfig }: GatewayConfig, report: Report): void {
  const least = leastRequestMemory(requestAnalyzerConfig.maxBodySize);
  if (server.requestMemory === null || server.requestMemory >= least) return;
  const cause = 'requestAnalyzerConfig.maxBodySize';
  report(
    'server.requestMemory',
    `must be at least ${formatSize(least)}, so that submissions of up to ${cause} have room`,
    cause,
  );
}

function checkPorts({ server, serverConfig }: GatewayConfig, report: Report): void {
  const ports = [
    [
      'serverConfig.http-server.http.port',
      serverConfig['http-server.http.enabled'],
      serverConfig['http-server.http.port'],
    ],
    [
      'serverConfig.http-server.https.port',
      serverConfig['http-server.https.enabled'],
      serverConfig['http-server.https.port'],
    ],
    ['server.adminPort', server.adminPort !== null, server.adminPort ?? 0],
  ] as const;
  const keyOfPort = new Map<number, string>();
  for (const [key, used, port] of ports) {
    if (!used || port === 0) continue;
    const other = keyOfPort.get(port);
    if (other !== undefined) report(key, `must differ from ${other}, which is ${port} too`);
    keyOfPort.set(port, key);
  }
}

/** The provider's response to a login is only taken where the pages are. */
function checkAdminHosts({ server, authentication }: GatewayConfig, report: Report): void {
  if (server.adminHosts.length === 0) return;
  const hosts = server.adminHosts.map(parseHost).filter((host) => host !== null);
  for (const [path, provider] of openidProviders(authentication)) {
    const redirectUrl = URL.parse(provider.redirectUrl ?? '');
    const host = redirectUrl === null ? null : parseHost(redirectUrl.host);
    if (redirectUrl === null || (host !== null && namesOneOf(hosts, host))) continue;
    report(
      `${path}.redirectUrl`,
      `must have one of server.adminHosts as its host, ${server.adminHosts.join(' or ')}`,
      'server.adminHosts',
    );
  }
}

function checkTimes({ server }: GatewayConfig, report: Report): void {
  if (server.headersTimeout > server.requestTimeout) {
    report('server.headersTimeout', `must not be longer than server.requestTimeout, ${server.requestTimeout}ms`);
  }
}

function checkTls({ serverConfig }: GatewayConfig, report: Report): void {
  const enabled = 'serverConfig.http-server.https.enabled';
  if (!serverConfig['http-server.https.enabled']) {
    if (!serverConfig['http-server.http.enabled']) {
      report('serverConfig.http-server.http.enabled', `must be true, as ${enabled} is not: nothing would be served`);
    }
  } else if (serverConfig['http-server.https.keystore.path'] === null) {
    report('serverConfig.http-server.https.keystore.path', `must be given, as ${enabled} is true`, enabled);
  }
}

function checkVerification({ requestAnalyzerConfig }: GatewayConfig, report: Report): void {
  if (requestAnalyzerConfig.kubernetesTokens?.audiences.length === 0) {
    const field = 'requestAnalyzerConfig.kubernetesTokens.audiences';
    report(field, 'must name an audience that tokens are issued for, e.g. [engine-gateway]', field);
  }
  const { jwksUrl, issuer, tokenIssuers } = requestAnalyzerConfig;
  if (jwksUrl !== null) {
    if (issuer === null && Object.keys(tokenIssuers).length > 0) {
      report(
        'requestAnalyzerConfig.issuer',
        'must be given, as requestAnalyzerConfig.tokenIssuers is: each token is verified by the keys of the issuer that it names, and jwksUrl has those of this one',
        'requestAnalyzerConfig.tokenIssuers',
      );
    }
    return;
  }
  for (const key of ['issuer', 'audience'] as const) {
    if (requestAnalyzerConfig[key] === null) continue;
    report(`requestAnalyzerConfig.${key}`, 'needs requestAnalyzerConfig.jwksUrl: without it no JWT is verified');
  }
}

/** True if the configuration takes users from client certificates. */
export function namesUsersByCertificate({
  requestAnalyzerConfig,
}: Pick<GatewayConfig, 'requestAnalyzerConfig'>): boolean {
  const { clientCertificateIdentityField, clientCertificateUserExpression } = requestAnalyzerConfig;
  return clientCertificateIdentityField !== null || clientCertificateUserExpression !== null;
}

/** Reports that a key needs users of client certificates. */
function requireIdentity(cause: string, report: Report, is = 'is'): void {
  const field = 'requestAnalyzerConfig.clientCertificateIdentityField';
  report(field, `must be given, e.g. SUBJECT_DN or CN, as ${cause} ${is}`, cause);
}

/** True if anything states more of users than what clients claim. */
function verifiesUsers(config: GatewayConfig): boolean {
  const { oauthTokenInfoUrl, kubernetesTokens } = config.requestAnalyzerConfig;
  const verifiers = [oauthTokenInfoUrl, kubernetesTokens];
  return verifiesTokens(config) || verifiers.some((one) => one !== null) || namesUsersByCertificate(config);
}

/** True if JWTs of requests are verified. */
function verifiesTokens({ requestAnalyzerConfig: { jwksUrl, tokenIssuers } }: GatewayConfig): boolean {
  return jwksUrl !== null || Object.keys(tokenIssuers).length > 0;
}

/** That the user mapping has rules, and that header lines are only rewritten where users are verified. */
function checkUserMapping(config: GatewayConfig, report: Report): void {
  const { userMapping } = config;
  if (userMapping === null) return;
  const { pattern, file, rewriteUserHeader, sources } = userMapping;
  if (pattern === null && file === null) {
    report('userMapping.pattern', 'must be given, e.g. (.*)@example\\.com, or userMapping.file', 'userMapping');
  } else if (pattern !== null && file !== null) {
    report('userMapping.file', 'must be left out, as userMapping.pattern is given');
  }
  if (sources.length === 0) report('userMapping.sources', 'must name a source of names');
  if (rewriteUserHeader && !verifiesUsers(config)) {
    report(
      'userMapping.rewriteUserHeader',
      'must be false, as nothing verifies users: set requestAnalyzerConfig.jwksUrl, oauthTokenInfoUrl or clientCertificateIdentityField',
    );
  }
}

/** That each source of groups is configured and asked, and that some user can have groups. */
function checkUserGroups(config: GatewayConfig, report: Report): void {
  const { userGroups, requestAnalyzerConfig } = config;
  if (userGroups === null) {
    const [role] = Object.entries(config.authorization?.groupRoles ?? {}).filter(([, groups]) => groups.length > 0);
    if (role !== undefined) {
      const key = `authorization.groupRoles.${role[0]}`;
      report('userGroups', `must be given, as ${key} is`, key);
    }
    return;
  }
  const configured = groupSourceNames.filter((name) => userGroups[name] !== null);
  if (configured.length === 0) {
    report('userGroups', `must have a group of keys for a source: ${groupSourceNames.join(', ')}`);
  }
  const { sources, claimedUsers } = userGroups;
  for (const name of new Set(sources ?? [])) {
    if (!configured.includes(name))
      report(`userGroups.${name}`, 'must be given, as userGroups.sources names it', 'userGroups.sources');
  }
  for (const name of configured) {
    if (sources !== null && !sources.includes(name)) {
      report('userGroups.sources', `must name ${name}, as userGroups.${name} is given`, `userGroups.${name}`);
    }
  }
  const { oauthTokenInfoUrl, kubernetesTokens } = requestAnalyzerConfig;
  const isVerified = verifiesUsers(config);
  if (userGroups.header !== null && config.server.trustedProxies.length === 0) {
    report('server.trustedProxies', 'must name the proxies that set userGroups.header', 'userGroups.header');
  }
  if (userGroups.certificate !== null && !namesUsersByCertificate(config)) {
    requireIdentity('userGroups.certificate', report);
  }
  const believesTokens = claimedUsers.some((name) => name === 'bearer' || name === 'cookie');
  if (userGroups.token !== null && !verifiesTokens(config) && !believesTokens) {
    report(
      'requestAnalyzerConfig.jwksUrl',
      'must be given, as userGroups.token is: groups are taken from verified JWTs; or name bearer in userGroups.claimedUsers to believe any',
      'userGroups.token',
    );
  }
  const filter = userGroups.ldap?.groupFilter ?? '()';
  if (!filter.startsWith('(') || !filter.endsWith(')')) {
    report('userGroups.ldap.groupFilter', 'must be a filter in parentheses, e.g. (objectClass=groupOfNames)');
  }
  if (userGroups.userInfo !== null && oauthTokenInfoUrl === null) {
    report(
      'requestAnalyzerConfig.oauthTokenInfoUrl',
      'must be given, as userGroups.userInfo is: it is what tokens are exchanged at',
      'userGroups.userInfo',
    );
  }
  if (userGroups.tokenReview !== null && kubernetesTokens === null) {
    report(
      'requestAnalyzerConfig.kubernetesTokens',
      'must be given, as userGroups.tokenReview is: it says whose tokens are reviewed',
      'userGroups.tokenReview',
    );
  }
  for (const name of ['token', 'userInfo', 'header'] as const) {
    if (userGroups[name]?.delimiter !== '') continue;
    report(`userGroups.${name}.delimiter`, 'must not be empty; "," is the default');
  }
  const lookups = configured.filter((name) => !ofRequests.has(name));
  if (lookups.length > 0 && claimedUsers.length === 0 && !isVerified) {
    report(
      'userGroups.claimedUsers',
      `must be given, as nothing verifies users and ${lookups.join(', ')} would be asked about nobody: name the sources whose names are to be believed, e.g. [header, basic], or set requestAnalyzerConfig.jwksUrl, oauthTokenInfoUrl or clientCertificateIdentityField`,
      'userGroups',
    );
  }
}

/** Sources that say what requests bring, and look no user up. */
const ofRequests: ReadonlySet<GroupSourceName> = new Set(['token', 'userInfo', 'tokenReview', 'certificate', 'header']);

/** Checks the identification of users by client certificates, and their verification. */
function checkClientCertificates(config: GatewayConfig, report: Report): void {
  const { server, serverConfig, requestAnalyzerConfig } = config;
  const key = (name: string) => `requestAnalyzerConfig.clientCertificate${name}`;
  const mappings = ['UserMappingPattern', 'UserMappingFile'] as const;
  const stated = mappings.filter((name) => requestAnalyzerConfig[`clientCertificate${name}`] !== null);
  const [first, second] = stated;
  if (requestAnalyzerConfig.clientCertificateUserExpression !== null) {
    for (const name of ['IdentityField', ...mappings] as const) {
      if (requestAnalyzerConfig[`clientCertificate${name}`] === null) continue;
      report(key(name), `must be left out, as ${key('UserExpression')} gives the user`, key('UserExpression'));
    }
  } else if (second !== undefined) {
    report(key(second), `must be left out, as ${key(first ?? second)} is given`);
  } else if (first !== undefined && requestAnalyzerConfig.clientCertificateIdentityField === null) {
    requireIdentity(key(first), report);
  }
  const tokens = config.clientCertificateJwtAuthentication;
  if (tokens !== null && !namesUsersByCertificate(config)) {
    requireIdentity('clientCertificateJwtAuthentication', report);
  }
  if (tokens !== null && ['iss', 'aud', 'exp', 'nbf', 'iat', 'jti'].includes(tokens.jwtPrincipalClaim)) {
    report(
      'clientCertificateJwtAuthentication.jwtPrincipalClaim',
      `must not be ${tokens.jwtPrincipalClaim}, which means something else in a JWT; write sub or a name such as preferred_username`,
    );
  }
  const truststore = 'serverConfig.http-server.https.truststore.path';
  const isTrusting =
    serverConfig['http-server.https.enabled'] && serverConfig['http-server.https.truststore.path'] !== null;
  if (server.clientCertificateHeader !== null && server.trustedProxies.length === 0) {
    report(
      'server.trustedProxies',
      'must name the proxies that verify client certificates, as server.clientCertificateHeader is given',
      'server.clientCertificateHeader',
    );
  }
  if (server.clientCertificates !== null && !isTrusting) {
    report(
      truststore,
      'must name the authorities of client certificates (PEM), with http-server.https.enabled: true, as server.clientCertificates is given',
      'server.clientCertificates',
    );
    return;
  }
  if (!namesUsersByCertificate(config) || isTrusting || server.clientCertificateHeader !== null) return;
  const cause = key(
    requestAnalyzerConfig.clientCertificateUserExpression === null ? 'IdentityField' : 'UserExpression',
  );
  report(
    truststore,
    `must name the authorities of client certificates (PEM), with http-server.https.enabled: true, as ${cause} is given; or set server.clientCertificateHeader where a proxy verifies them`,
    cause,
  );
}

function checkMonitor(config: GatewayConfig, report: Report): void {
  const { monitor, clusterStatsConfiguration, backendState, resources } = config;
  const { monitorType } = clusterStatsConfiguration;
  // In Kubernetes every cluster may name a Secret of its own.
  if (monitorsWithUser.includes(monitorType) && backendState === null && resources.source !== 'kubernetes') {
    const cause = 'clusterStatsConfiguration.monitorType';
    report('backendState', `must be given with a username, as ${cause} is ${monitorType}`, cause);
  }
  for (const [metric, least] of Object.entries(monitor.metricMinimumValues)) {
    const greatest = monitor.metricMaximumValues[metric];
    // NaN is neither less nor more.
    if (greatest === undefined || !(greatest < least)) continue;
    report(`monitor.metricMaximumValues.${metric}`, `must be at least ${least}, the metric's metricMinimumValues`);
  }
}

/** Statement paths are absolute, and none is a prefix of another or under /v1/statement, as in Trino Gateway. */
function checkStatementPaths({ additionalStatementPaths }: GatewayConfig, report: Report): void {
  const previousPaths: string[] = ['/v1/statement'];
  for (const [index, path] of additionalStatementPaths.entries()) {
    const cut = path.replace(/\/+$/, '');
    const field = `additionalStatementPaths[${index}]`;
    const clash = previousPaths.find((other) => `${cut}/`.startsWith(`${other}/`) || `${other}/`.startsWith(`${cut}/`));
    if (cut === '') report(field, 'must name a path below "/"');
    else if (clash !== undefined) report(field, `must not lie under or above the statement path ${clash}`);
    previousPaths.push(cut);
  }
}

function checkCookies({ gatewayCookieConfiguration }: GatewayConfig, report: Report): void {
  if (!gatewayCookieConfiguration.enabled) return;
  const secret = gatewayCookieConfiguration.cookieSigningSecret;
  if (secret === null || secret === '') {
    report(
      'gatewayCookieConfiguration.cookieSigningSecret',
      'must be given, as gatewayCookieConfiguration.enabled is true',
      'gatewayCookieConfiguration.enabled',
    );
  }
}

function checkAdmission({ admission: { secret } }: GatewayConfig, report: Report): void {
  if (secret !== null && secret.length < MIN_SECRET) {
    report('admission.secret', `must have at least ${MIN_SECRET} characters`);
  }
}

function checkAuthentication(config: GatewayConfig, report: Report): void {
  const { authentication, server } = config;
  if (authentication === null) {
    if (isLoopback(server.address)) return;
    const message = `is reached from other machines, and nothing says who may call: configure "authentication", or add the line "authentication: none" to let every call pass, or write ${THIS_MACHINE}`;
    report('server.address', message, 'authentication');
    return;
  }
  const { defaultType } = authentication;
  if (defaultType === 'none') return;
  if (authentication.clientCertificates && !namesUsersByCertificate(config)) {
    requireIdentity('authentication.clientCertificates', report, 'is true');
  }
  const { secret, previousSecrets } = authentication.session;
  if (secret !== null && secret.text.length < MIN_SECRET) {
    report('authentication.session.secret', `must have at least ${MIN_SECRET} characters`);
  }
  if (previousSecrets.some(({ text }) => text !== '' && text.length < MIN_SECRET)) {
    report('authentication.session.previousSecrets', `must have at least ${MIN_SECRET} characters each, or none`);
  }
  for (const [path, provider] of openidProviders(authentication)) checkEndpoints(path, provider, report);
}

function checkEndpoints(path: string, provider: ConfiguredProvider, report: Report): void {
  const endpoints = ['authorizationEndpoint', 'tokenEndpoint', 'jwkEndpoint'] as const;
  const firstEndpoint = endpoints.find((key) => provider[key] !== null);
  if (firstEndpoint === undefined) return;
  for (const key of endpoints) {
    if (provider[key] !== null) continue;
    report(
      `${path}.${key}`,
      `must be given, as ${firstEndpoint} is; without all three they are discovered from the issuer`,
      `${path}.${firstEndpoint}`,
    );
  }
  if (provider.logoutRedirectUrl === null) return;
  report(
    `${path}.logoutRedirectUrl`,
    `must be left out, as ${firstEndpoint} is given: where the provider ends its sessions is discovered from the issuer`,
    `${path}.${firstEndpoint}`,
  );
}
