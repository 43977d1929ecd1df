import type { GatewayConfig } from './gatewayConfig.ts';

type Authentication = GatewayConfig['authentication'];

/** An OpenID provider at which users log in, as it is configured. */
export type ConfiguredProvider = NonNullable<NonNullable<Authentication>['oauth']>;

type Report = (field: string, message: string, cause?: string) => void;

/** Name under which `authentication.oauth` is one of the providers. */
export const FIRST_PROVIDER = 'oauth';

/** Names that stand in callback URLs, sessions and before users' names. */
const nameForm = /^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** All providers at which users log in, by the path of their keys: `authentication.oauth` first. */
export function openidProviders(authentication: Authentication): readonly (readonly [string, ConfiguredProvider])[] {
  if (authentication === null) return [];
  const { oauth, providers } = authentication;
  return [
    ...(oauth === null ? [] : [['authentication.oauth', oauth] as const]),
    ...Object.entries(providers).map(([name, provider]) => [`authentication.providers.${name}`, provider] as const),
  ];
}

/**
 * That an issuer can be distinguished from every other one, and gives no roles but its own; that responses of a
 * provider come to an address of its own.
 */
export function checkIssuers(config: GatewayConfig, report: Report): void {
  checkOfApi(config, report);
  checkOfRequests(config, report);
}

function checkOfApi({ authentication }: GatewayConfig, report: Report): void {
  if (authentication === null) return;
  const { oauth, providers, tokenIssuers, form, session } = authentication;
  const issuers: (readonly [string, string | null])[] = [];
  if (oauth !== null) issuers.push(['authentication.oauth', oauth.issuer]);
  for (const [name, { issuer, redirectUrl, roles }] of Object.entries(providers)) {
    const path = `authentication.providers.${name}`;
    issuers.push([path, issuer]);
    if (!checkName(path, name, report)) continue;
    checkRoles(path, roles, report);
    const callback = `/oidc/callback/${name}`;
    const url = URL.parse(redirectUrl ?? '');
    if (url === null || (url.pathname.endsWith(callback) && url.search === '' && url.hash === '')) continue;
    const message = `must end with ${callback}, which takes the answers of this provider alone; register it there as well`;
    report(`${path}.redirectUrl`, message);
  }
  for (const [name, { issuer, audiences, algorithms, roles }] of Object.entries(tokenIssuers)) {
    const path = `authentication.tokenIssuers.${name}`;
    issuers.push([path, issuer]);
    if (!checkName(path, name, report)) continue;
    if (Object.hasOwn(providers, name)) report(path, `must have another name than authentication.providers.${name}`);
    checkRoles(path, roles, report);
    checkTokens(path, audiences, algorithms, report);
  }
  checkDistinct(issuers, report);
  // A provider knows its client secret: sessions that are signed with one made of it are as good as its word for everybody.
  if (Object.keys(providers).length > 0 && form === null && session.secret === null) {
    report(
      'authentication.session.secret',
      'must be given (32 characters or more, the same on all replicas), as authentication.providers is and there is no key pair of authentication.form',
      'authentication.providers',
    );
  }
  if (form === null) return;
  const { order, ldapConfigPath } = form;
  const path = 'authentication.form.order';
  if (new Set(order).size < order.length) report(path, 'must name each of ldap and presetUsers once');
  if (order.length === 0) report(path, 'must name ldap, presetUsers or both');
  if (ldapConfigPath !== null && order.length > 0 && !order.includes('ldap')) {
    report(
      path,
      'must name ldap, as authentication.form.ldapConfigPath is given',
      'authentication.form.ldapConfigPath',
    );
  }
}

function checkOfRequests({ requestAnalyzerConfig }: GatewayConfig, report: Report): void {
  const { jwksUrl, issuer: first, tokenIssuers } = requestAnalyzerConfig;
  const issuers: (readonly [string, string | null])[] = jwksUrl === null ? [] : [['requestAnalyzerConfig', first]];
  for (const [name, { issuer, audiences, algorithms }] of Object.entries(tokenIssuers)) {
    const path = `requestAnalyzerConfig.tokenIssuers.${name}`;
    issuers.push([path, issuer]);
    if (checkName(path, name, report)) checkTokens(path, audiences, algorithms, report);
  }
  checkDistinct(issuers, report);
}

function checkName(path: string, name: string, report: Report): boolean {
  if (name === FIRST_PROVIDER) {
    report(path, `must have another name: ${FIRST_PROVIDER} is that of authentication.oauth`);
    return false;
  }
  if (nameForm.test(name)) return true;
  report(path, 'must have a name of lower-case letters, digits and "-" that begins with a letter, at most 63');
  return false;
}

function checkRoles(path: string, roles: object | null, report: Report): void {
  if (roles !== null) return;
  report(
    `${path}.roles`,
    'must be given: which privileges of its tokens give which role, such as {user: .*}; {} gives none',
    path,
  );
}

function checkTokens(
  path: string,
  audiences: readonly string[] | null,
  algorithms: readonly string[],
  report: Report,
): void {
  if (audiences?.length === 0)
    report(`${path}.audiences`, 'must name an audience, which its tokens for this gateway have');
  if (algorithms.length === 0)
    report(`${path}.algorithms`, 'must name an algorithm, e.g. RS256; left out, all are accepted');
}

/** Of two issuers with one name no one could say whose keys verify a token. */
function checkDistinct(issuers: readonly (readonly [string, string | null])[], report: Report): void {
  const paths = new Map<string, string>();
  for (const [path, issuer] of issuers) {
    if (issuer === null) continue;
    const key = issuer.replace(/\/$/, '');
    const other = paths.get(key);
    if (other !== undefined)
      report(`${path}.issuer`, `must differ from ${other}.issuer: a token's iss says whose it is`);
    else paths.set(key, path);
  }
}
