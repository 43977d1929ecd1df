import { engineCluster } from '../../kinds/engineCluster/kind.ts';
import { engineRollout } from '../../kinds/engineRollout/kind.ts';
import { queryLimit } from '../../kinds/queryLimit/kind.ts';
import { queryReplay } from '../../kinds/queryReplay/kind.ts';
import { resourceKinds } from '../../kinds/registry.ts';
import { routingGroup } from '../../kinds/routingGroup/kind.ts';
import { routingRule } from '../../kinds/routingRule/kind.ts';
import type { ProductNames } from '../../model/names.ts';
import { cookieNames } from './cookies.ts';
import { isSafeMethod } from './guard.ts';
import { type Authentication, csrfHeader } from './openAuthentication.ts';

/** Required Kubernetes rights for our resources (SubjectAccessReview). */
export interface ResourceAccess {
  readonly verb: 'list' | 'create' | 'update' | 'delete';
  readonly resource: string;
}

export interface Access {
  /** Roles of which the caller needs one; empty: being recognised is enough. */
  readonly anyOf: readonly Role[];
  /** Required RBAC rights, all of them, if Kubernetes decides. */
  readonly resources: readonly ResourceAccess[];
  /** Sufficient RBAC rights in place of `resources`, all of them. */
  readonly orResources?: readonly ResourceAccess[];
}

/** Access to an endpoint; `public`: no one is asked who they are. */
export type EndpointAccess = Access | 'public';

/** Role that a route may declare as its `config.role`, over the table below. */
export type RouteRole = Role | 'public';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Role that the route needs, where the table of `endpointAccess.ts` does not have it. */
    role?: RouteRole;
    /** A read, though its access is that of writes: it runs what the caller writes, and changes nothing. */
    isRead?: true;
  }
}

const listClusters: ResourceAccess = { verb: 'list', resource: engineCluster.plural };
const createCluster: ResourceAccess = { verb: 'create', resource: engineCluster.plural };
const updateCluster: ResourceAccess = { verb: 'update', resource: engineCluster.plural };
const deleteCluster: ResourceAccess = { verb: 'delete', resource: engineCluster.plural };
const listRules: ResourceAccess = { verb: 'list', resource: routingRule.plural };
const createRule: ResourceAccess = { verb: 'create', resource: routingRule.plural };
const deleteRule: ResourceAccess = { verb: 'delete', resource: routingRule.plural };
const updateRule: ResourceAccess = { verb: 'update', resource: routingRule.plural };

/** RBAC rights equivalent to a role: reading and writing for endpoints without a resource. */
const resourcesOfRole: Readonly<Record<Role, readonly ResourceAccess[]>> = {
  API: [updateCluster],
  USER: [listClusters],
  // Of kinds that came later a Role that was written before states nothing: who was an administrator stays one.
  ADMIN: resourceKinds.all
    .filter(({ isRequired }) => isRequired)
    .map(({ plural }) => ({ verb: 'update', resource: plural })),
};

export function accessOfRole(role: Role): Access {
  return { anyOf: [role], resources: resourcesOfRole[role] };
}

/** Access to what changes rules, and to what compiles and runs a rule that the caller writes (`/api/explain`). */
export const changeRules: Access = { anyOf: ['ADMIN'], resources: [updateRule] };

/** Access to the switch of a cluster; pages offer with it to change and to delete it. */
export const changeClusters: Access = { anyOf: ['ADMIN'], resources: [updateCluster] };

/** Access to explanations of everybody's requests, with what the rules say; others have their own explained. */
export const explainAll: Access = { anyOf: ['ADMIN'], resources: [listRules] };

/** `authorization.webappReadRole`; null: ADMIN, and with the reference's product name the roles of its calls. */
export type WebappReadRole = 'ADMIN' | 'USER' | null;

/** @property method of the calls that the row is about; left out, all */
type Row = readonly [pattern: RegExp, access: EndpointAccess, method?: 'POST' | 'PUT' | 'DELETE'];

/**
 * Access of every path by family (docs/authentication.md#roles). The first row that fits
 * counts; a path without a row has to declare its role.
 * @param webappReadRole `authorization.webappReadRole`: role of the reading calls under /webapp
 * @param publicReads `authentication.publicReads`: whether /api/public needs no credentials
 */
export function endpointTable(
  names: ProductNames,
  webappReadRole: WebappReadRole,
  publicReads: boolean,
): readonly Row[] {
  const gateway = names.gatewayPath;
  const api = (...resources: readonly ResourceAccess[]): Access => ({ anyOf: ['API'], resources });
  const user = (...resources: readonly ResourceAccess[]): Access => ({ anyOf: ['USER'], resources });
  // Calls that every page needs: they do not belong to the family that needs ADMIN.
  const pages = (...resources: readonly ResourceAccess[]): Access => ({ anyOf: ['USER', 'ADMIN'], resources });
  const admin = (...resources: readonly ResourceAccess[]): Access => ({ anyOf: ['ADMIN'], resources });
  // Opening the reads to USER keeps them open to ADMIN.
  const read = (...resources: readonly ResourceAccess[]): Access => ({
    anyOf: (webappReadRole ?? (names.isReference ? 'USER' : 'ADMIN')) === 'USER' ? ['USER', 'ADMIN'] : ['ADMIN'],
    resources,
  });
  // The reference shows its rules to administrators only.
  const readRules: Access = {
    anyOf: webappReadRole === 'USER' ? ['USER', 'ADMIN'] : ['ADMIN'],
    resources: [listRules],
  };
  // The reference lets every user of its pages change resource groups; the engine's side of it has the same role.
  const writeGroups: Access = {
    anyOf: webappReadRole === null && names.isReference ? ['USER', 'ADMIN'] : ['ADMIN'],
    resources: [updateCluster],
  };
  return [
    [/^\/gateway\/backend\/modify\/add$/, api(createCluster)],
    // An update of an unknown name adds it (docs/compatibility.md#cluster-registry).
    [/^\/gateway\/backend\/modify\/update$/, api(createCluster, updateCluster)],
    [/^\/gateway\/backend\/modify\/delete$/, api(deleteCluster)],
    [/^\/gateway\/backend\/(de)?activate\//, api(updateCluster)],
    [/^\/gateway(\/backend\/(all|active))?$/, api(listClusters)],
    [new RegExp(`^/${names.pathSegment}/(resourcegroup|selector|globalproperty)/read`), user(listClusters)],
    [new RegExp(`^/${names.pathSegment}/(resourcegroup|selector|globalproperty)/`), user(updateCluster)],
    [/^\/webapp\/(getAllBackends|findQueryHistory|getDistribution|getUIConfiguration)$/, read(listClusters)],
    [/^\/webapp\/(find|get)(ResourceGroup|Selector|GlobalProperty|ExactMatchSourceSelector)$/, read(listClusters)],
    [/^\/webapp\/[a-z]+(ResourceGroup|Selector|GlobalProperty|ExactMatchSourceSelector)$/, writeGroups],
    [/^\/webapp\/getRoutingRules$/, readRules],
    [/^\/webapp\/updateRoutingRules$/, changeRules],
    [/^\/webapp\/saveBackend$/, admin(createCluster)],
    [/^\/webapp\/updateBackend$/, admin(createCluster, updateCluster)],
    [/^\/webapp\/deleteBackend$/, admin(deleteCluster)],
    [/^\/webapp\//, admin(updateCluster)],
    [/^\/entity(\/|$)/, admin(createCluster, updateCluster)],
    [/^\/api\/public\//, publicReads ? 'public' : { anyOf: ['API', 'USER', 'ADMIN'], resources: [listClusters] }],
    [/^\/api\/overview(\/|$)/, pages(listClusters)],
    [/^\/api\/events$/, pages(listClusters)],
    [/^\/api\/clusters(\/:name)?$/, pages(listClusters)],
    [/^\/api\/clusters\/:name\/active$/, changeClusters],
    [/^\/api\/clusters\/:name\/drain$/, { anyOf: ['API', 'ADMIN'], resources: [listClusters] }],
    [/^\/api\/scaling\//, { anyOf: ['API', 'USER', 'ADMIN'], resources: [listClusters] }],
    [/^\/api\/heldDeletions$/, { anyOf: ['API', 'USER', 'ADMIN'], resources: [listClusters] }],
    [/^\/api\/heldDeletions\/confirm$/, admin(deleteCluster)],
    ...accessToLimits(/^\/api\/groups(\/:name)?$/, routingGroup.plural),
    ...accessToLimits(/^\/api\/limits(\/:namespace\/:name)?$/, queryLimit.plural),
    ...accessToLimits(/^\/api\/rollouts(\/:namespace\/:name)?$/, engineRollout.plural),
    [/^\/api\/rollouts\/:namespace\/:name\/:action$/, admin({ verb: 'update', resource: engineRollout.plural })],
    // Results name users and queries of all of them.
    [/^\/api\/replays\/:namespace\/:name\/report$/, admin({ verb: 'list', resource: queryReplay.plural })],
    ...accessToLimits(/^\/api\/replays(\/:namespace\/:name)?$/, queryReplay.plural),
    // Names of users and what rules said: for those who may change all of it.
    [/^\/api\/audit$/, { anyOf: ['API', 'ADMIN'], resources: resourcesOfRole.ADMIN }],
    [/^\/api\/queries\/running(\/|$)/, pages(listClusters)],
    [/^\/api\/(queries|queries\/export|statistics|digests|digests\/:digest)$/, pages(listClusters)],
    [/^\/api\/quarantine(\/|$)/, pages(listClusters)],
    [/^\/api\/estimates$/, accessOfRole('ADMIN')],
    [/^\/api\/queue$/, pages(listClusters)],
    [/^\/api\/queue\/:id(\/first)?$/, admin(updateCluster)],
    [/^\/api\/rules$/, admin(createRule), 'POST'],
    [/^\/api\/(rules|ruleHits)$/, readRules],
    [/^\/api\/rules\/:name$/, admin(deleteRule), 'DELETE'],
    [/^\/api\/rules\/(:name|impact)$/, changeRules],
    [/^\/api\/(queries|history)\//, pages(listClusters)],
    // Callers that may list rules may explain all requests, with or without clusters.
    [/^\/api\/explain$/, { ...pages(listClusters), orResources: [listRules] }],
    [/^\/api\/resourcegroups\/(explain|declared)$/, pages(listClusters)],
    [/^\/api\/pages$/, pages(listClusters)],
    [new RegExp(`^${gateway}/api/`), user(listClusters)],
    [new RegExp(`^(${gateway})?/(livez|readyz)$`), 'public'],
    [new RegExp(`^${gateway}(/|$)`), 'public'],
    [/^\/(metrics|openapi\.json)?$/, 'public'],
    [/^\/(loginType|login|logout|(sso|oidc\/callback)(\/:provider)?|api\/logins)$/, 'public'],
    [/^\/userinfo$/, { anyOf: ['USER', 'ADMIN'], resources: [listClusters] }],
  ];
}

/** Rows of calls on resources of a kind: pages and administrators read them, administrators write them. */
function accessToLimits(pattern: RegExp, resource: string): readonly Row[] {
  const access = (anyOf: readonly Role[], ...verbs: readonly ResourceAccess['verb'][]): Access => ({
    anyOf,
    resources: verbs.map((verb) => ({ verb, resource })),
  });
  return [
    // A replacement of what is not there creates it.
    [pattern, access(['ADMIN'], 'create', 'update'), 'PUT'],
    [pattern, access(['ADMIN'], 'delete'), 'DELETE'],
    [pattern, access(['USER', 'ADMIN'], 'list')],
  ];
}

/**
 * Access of a route.
 * @param url the route's pattern
 * @throws Error when no one has said which role it needs: a route is never open by being forgotten
 */
export function accessOfRoute(
  table: readonly Row[],
  method: string,
  url: string,
  declared: RouteRole | undefined,
): EndpointAccess {
  if (declared === 'public') return 'public';
  if (declared !== undefined) return accessOfRole(declared);
  const row = table.find(([pattern, , only = method]) => only === method && pattern.test(url));
  if (row === undefined) {
    throw new Error(`route ${url} has no role: declare config.role or add a row in src/api/auth/endpointAccess.ts`);
  }
  return row[1];
}

/** Roles of callers (docs/authentication.md#roles): none includes another. */
export const roles = ['ADMIN', 'USER', 'API'] as const;

export type Role = (typeof roles)[number];

/** Authentication method of a caller; `open`: nothing is configured, so every call passes. */
export type Recognition = 'open' | 'session' | 'basic' | 'bearer' | 'certificate' | 'kubernetes';

export interface Caller {
  /** Name for the audit, for override annotations and for `userId`. */
  readonly name: string;
  readonly by: Recognition;
  /** Name by which their queries are known, after the user mapping; left out if that is `name`. */
  readonly queryUser?: string;
  /** By which of the configured ways, e.g. `presetUsers`, `ldap`, `oauth` or the name of a provider; null: not known. */
  readonly method: string | null;
  /** Roles held, as `/userinfo` lists them. */
  roles(): Promise<ReadonlySet<Role>>;
  /** @param namespace of the resources; absent: those of every namespace that the gateway reads */
  permits(access: Access, namespace?: string): Promise<boolean>;
}

/** No user has it: names with control characters are none. */
const NOBODY = '\u0001';

/**
 * A caller whose queries are known by the mapped name (docs/identity.md#user-mapping).
 * @param mapped gives the name; null for names that no rule lets pass, whose queries are no one's
 */
export function withQueryUser(caller: Caller, mapped: (name: string) => string | null): Caller {
  return { ...caller, queryUser: mapped(caller.name) ?? NOBODY };
}

export function queryUserOf({ name, queryUser }: Caller): string {
  return queryUser ?? name;
}

/**
 * The caller of an installation without authentication: `user`, with all roles
 * (docs/authentication.md#without-authentication).
 */
export const openCaller: Caller = callerWithRoles('user', 'open', new Set(roles));

export function callerWithRoles(
  name: string,
  by: Recognition,
  ownRoles: ReadonlySet<Role>,
  method: string | null = null,
): Caller {
  return {
    name,
    by,
    method,
    roles: async () => ownRoles,
    permits: async ({ anyOf }) => anyOf.some((role) => ownRoles.has(role)),
  };
}

/** A scheme of the OpenAPI document (OpenAPI 3.1, Security Scheme Object). */
export interface SecurityScheme {
  readonly type: 'mutualTLS' | 'http' | 'apiKey';
  readonly description: string;
  readonly scheme?: 'basic' | 'bearer';
  readonly in?: 'cookie' | 'header';
  readonly name?: string;
}

/** Schemes that must all be satisfied; a list of these is one of which any will do (Security Requirement Object). */
export type SecurityRequirement = Readonly<Record<string, readonly string[]>>;

/** Security schemes of the OpenAPI document by name: methods that the configuration accepts. */
export function securitySchemes({ parts, isOpen }: Authentication): Readonly<Record<string, SecurityScheme>> {
  if (isOpen) return {};
  const { names, form, issuedTokens, kubernetes, certificates } = parts;
  const cookie = (secure: boolean, over: string): SecurityScheme => ({
    type: 'apiKey',
    in: 'cookie',
    name: cookieNames(names, secure).session,
    description: `Session of a browser that logged in over ${over}.`,
  });
  const tokens = [
    'a session (`data.token` of POST /login)',
    !issuedTokens.isEmpty && "a JWT of an OpenID provider or another issuer that names the gateway's audience",
    kubernetes !== null && 'a token of the Kubernetes cluster',
  ].filter((token) => token !== false);
  return {
    ...(form && { basic: { type: 'http', scheme: 'basic', description: 'Name and password, for programs.' } as const }),
    bearer: { type: 'http', scheme: 'bearer', description: `One of: ${tokens.join('; ')}.` },
    ...(certificates && {
      certificate: { type: 'mutualTLS', description: 'A client certificate, for programs.' } as const,
    }),
    session: cookie(false, 'clear text'),
    secureSession: cookie(true, 'TLS'),
    csrf: {
      type: 'apiKey',
      in: 'header',
      name: csrfHeader(names),
      description: `Value of the cookie ${cookieNames(names, false).csrf} (${cookieNames(names, true).csrf} over TLS).`,
    },
  };
}

/** Ways to call an operation: any of them. Those by cookie repeat the session's token where something may change. */
export function securityOf(authentication: Authentication, method: string): SecurityRequirement[] {
  const header: SecurityRequirement = isSafeMethod(method) ? {} : { csrf: [] };
  return [
    ...(authentication.parts.form === null ? [] : [{ basic: [] }]),
    { bearer: [] },
    ...(authentication.parts.certificates === null ? [] : [{ certificate: [] }]),
    { session: [], ...header },
    { secureSession: [], ...header },
  ];
}

/** Describes the required rights of an operation. */
export function accessInWords({ anyOf, resources }: Access, { parts }: Authentication): string {
  const roles = `Needs the role ${anyOf.join(' or ')}`;
  if (parts.kubernetes === null) return `${roles}.`;
  return `${roles}; of callers known by Kubernetes, RBAC: ${rightsInWords(resources)}.`;
}

/** Rights on resources as RBAC has them, e.g. `create engineclusters.enginegateway.dev`. */
export function rightsInWords(resources: Access['resources']): string {
  return resources.map(({ verb, resource }) => `${verb} ${resource}.enginegateway.dev`).join(' and ');
}
