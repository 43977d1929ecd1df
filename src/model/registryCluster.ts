import { type Static, Type } from 'typebox';
import { clusterUrlProblem, MAX_CLUSTER_URL_LENGTH, storedClusterUrl } from './clusterAddresses.ts';
import type { Problem } from './errors.ts';
import type { ProductNames } from './names.ts';
import { type Checked, compileCheck } from './validation.ts';

/**
 * Schema rules of a cluster's registry name: 1 to 256 characters, no control characters, no space at either end (MySQL
 * compares without them). The pattern is valid in RE2 too, as the API server compiles it.
 */
export const clusterNameRules = {
  minLength: 1,
  maxLength: 256,
  pattern: '^[^\\s\\x00-\\x1f\\x7f]([^\\x00-\\x1f\\x7f]*[^\\s\\x00-\\x1f\\x7f])?$',
} as const;

/** Schema rules of a routing group's name: 1 to 255 characters (the width of the history's column), none of control. */
export const routingGroupRules = { minLength: 1, maxLength: 255, pattern: '^[^\\x00-\\x1f\\x7f]+$' } as const;

const urlText = { minLength: 1, maxLength: MAX_CLUSTER_URL_LENGTH, format: 'uri' } as const;

/** A cluster in responses of the registry's REST API (docs/rest-api.md#cluster-registry). */
export const RegistryCluster = Type.Object(
  {
    name: Type.String({ description: 'Identifier of the cluster; used in the activate and deactivate paths.' }),
    proxyTo: Type.String({ description: 'URL that requests are forwarded to.' }),
    active: Type.Boolean({ description: 'Whether the cluster takes new queries.' }),
    routingGroup: Type.String({ description: 'Group the cluster belongs to.' }),
    externalUrl: Type.String({ description: 'URL of the link for people; proxyTo unless it was set.' }),
  },
  { $id: 'RegistryCluster' },
);
export type RegistryCluster = Static<typeof RegistryCluster>;

/** A cluster in requests: name, proxyTo, active and routingGroup are required. */
export const RegistryClusterInput = Type.Object(
  {
    name: Type.String({ ...clusterNameRules, description: 'Identifier of the cluster.' }),
    proxyTo: Type.String({
      ...urlText,
      description: 'URL that requests are forwarded to: scheme, host, port; one trailing slash is cut.',
    }),
    active: Type.Boolean({ description: 'Whether the cluster takes new queries.' }),
    routingGroup: Type.String({ ...routingGroupRules, description: 'Group the cluster belongs to.' }),
    externalUrl: Type.Optional(
      Type.Union([Type.String(urlText), Type.Null()], {
        description: 'URL of the link for people; proxyTo when absent or null.',
      }),
    ),
  },
  { $id: 'RegistryClusterInput', description: 'Fields beyond these are ignored.' },
);

const nullable = <T extends Parameters<typeof Type.Optional>[0]>(type: T) => Type.Union([type, Type.Null()]);
/** The input without the rules for URLs, which have better messages of their own. */
const checkInput = compileCheck(
  Type.Object({
    ...RegistryClusterInput.properties,
    proxyTo: Type.String(),
    externalUrl: Type.Optional(nullable(Type.String())),
  }),
);

/** Status of a cluster (docs/routing.md#health). */
export type ClusterHealth = 'PENDING' | 'HEALTHY' | 'UNHEALTHY';

/**
 * Checks a cluster in a request and converts it to the stored form: URLs without one trailing slash, `externalUrl`
 * filled in. Unknown fields are ignored (docs/compatibility.md#common-rules).
 */
export function parseRegistryCluster(value: unknown): Checked<RegistryCluster> {
  const checked = checkInput(value);
  const problems: Problem[] = checked.ok ? [] : checked.problems.map(better);
  for (const field of ['proxyTo', 'externalUrl'] as const) {
    const text = (value as Record<string, unknown> | null)?.[field];
    const message = typeof text === 'string' ? clusterUrlProblem(text) : null;
    if (message !== null) problems.push({ field, message });
  }
  if (!checked.ok || problems.length > 0) return { ok: false, problems };
  const { name, active, routingGroup } = checked.value;
  const proxyTo = storedClusterUrl(checked.value.proxyTo);
  const externalUrl = storedClusterUrl(checked.value.externalUrl ?? proxyTo);
  return { ok: true, value: { name, proxyTo, active, routingGroup, externalUrl } };
}

/** Default group of clusters, if the group is optional. */
const DEFAULT_GROUP = 'adhoc';

/** Converts a text field as Trino Gateway does: a number or boolean becomes its text. */
const textOf = (value: unknown): unknown =>
  typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value)) ? String(value) : value;

/** Converts a boolean as Trino Gateway does: text and numbers count, and null is false. */
function truthOf(value: unknown): unknown {
  if (value === 'true' || value === 'false') return value === 'true';
  if (value === null) return false;
  return Number.isInteger(value) ? value !== 0 : value;
}

/**
 * `parseRegistryCluster` for callers of Trino Gateway: `active` and `routingGroup` are optional (true and `adhoc`),
 * `active` may be text, a number or null, names may be numbers, and an empty `externalUrl` counts as absent
 * (docs/migration.md#rest-api).
 */
function parseReferenceCluster(value: unknown): Checked<RegistryCluster> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return parseRegistryCluster(value);
  const { name, active = true, routingGroup, externalUrl, ...rest } = value as Record<string, unknown>;
  return parseRegistryCluster({
    ...rest,
    ...(name === undefined ? {} : { name: textOf(name) }),
    active: truthOf(active),
    routingGroup: routingGroup === undefined || routingGroup === null ? DEFAULT_GROUP : textOf(routingGroup),
    ...(externalUrl === undefined || externalUrl === '' ? {} : { externalUrl }),
  });
}

/** Returns the parser of clusters in requests for a product (docs/rest-api.md#cluster-registry). */
export function clusterParser({ isReference }: Pick<ProductNames, 'isReference'>): typeof parseRegistryCluster {
  return isReference ? parseReferenceCluster : parseRegistryCluster;
}

/** Replaces messages about patterns by descriptions. */
function better(problem: Problem): Problem {
  if (!problem.message.startsWith('must match')) return problem;
  const message =
    problem.field === 'name'
      ? 'must not hold control characters, nor start or end with a space'
      : 'must not hold control characters';
  return { field: problem.field, message };
}
