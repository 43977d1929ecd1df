/** Names of a cookie; the configured product's is the first. */
type CookieNames = [string, ...string[]];

export const REFERENCE_PRODUCT = 'Trino';
/** Product names in headers of clients that the gateway reads, in addition to the configured one. */
const PROTOCOL_PRODUCTS = ['Engine', REFERENCE_PRODUCT] as const;
/** Product names in engine protocol headers for clusters (`protocol.clusterHeaders`). */
export const clusterHeaderChoices = ['Both', 'Engine', 'Trino'] as const;
export type ClusterHeaderChoice = (typeof clusterHeaderChoices)[number];
/** Prefix of its cookies, before a dot. */
const REFERENCE_INITIALS = 'TG';

/**
 * Creates the product's names.
 * @param productName letters and digits, starting with an upper-case letter, e.g. `Engine`, `Trino`
 * @param clusterHeaders `protocol.clusterHeaders`; null: `Trino` for Trino, else both
 */
export function productNames(productName: string, clusterHeaders: ClusterHeaderChoice | null = null) {
  const lower = productName.toLowerCase();
  const headerPrefix = `X-${productName}-`;
  const headerKeyPrefix = headerPrefix.toLowerCase();
  const initials = `${productName.charAt(0).toUpperCase()}G`;
  const stickyCookiePrefix = initials === REFERENCE_INITIALS ? 'EG.' : `${initials}.`;
  const isReference = productName === REFERENCE_PRODUCT;
  const products = [...new Set([productName, ...PROTOCOL_PRODUCTS])];
  const headerPrefixes: readonly string[] = products.map((product) => `x-${product.toLowerCase()}-`);
  const toCluster = clusterHeaders ?? (isReference ? REFERENCE_PRODUCT : 'Both');
  const clusterProducts = toCluster === 'Both' ? products : [toCluster];
  const uiTokenCookies = products.map(uiTokenCookie) as CookieNames;
  const idTokenCookies = products.map(idTokenCookie) as CookieNames;
  const objects = new Map(
    products.flatMap((product) =>
      [requestUserObject, queryPropertiesObject].map((nameOf) => [nameOf(product), nameOf(productName)]),
    ),
  );
  const ownHeader = (name: string): string => {
    const key = name.toLowerCase();
    const prefix = headerPrefixes.find((each) => key.startsWith(each));
    if (prefix === undefined || prefix === headerKeyPrefix) return name;
    return (name.startsWith('x') ? headerKeyPrefix : headerPrefix) + name.slice(prefix.length);
  };
  const clusterNames = (name: string): readonly string[] =>
    clusterProducts.map((product) => {
      if (product === productName) return name;
      const prefix = `X-${product}-`;
      return (name.startsWith('x') ? prefix.toLowerCase() : prefix) + name.slice(headerPrefix.length);
    });
  return {
    /** The configured product name, e.g. `Engine` or `Trino`. */
    product: productName,
    /** `X-<Product>-<suffix>`, e.g. `header('Routing-Group')` is `X-Engine-Routing-Group`. */
    header: (suffix: string): string => headerPrefix + suffix,
    /** The header in lower case, as Node provides incoming header names. */
    headerKey: (suffix: string): string => headerKeyPrefix + suffix.toLowerCase(),
    /** Lower-case prefixes of the protocol headers that the gateway reads; the configured product's is the first. */
    headerPrefixes,
    /**
     * True if a header belongs to the protocol of engines, under any name that the gateway reads. @param key name in
     * lower case
     */
    isProtocolHeader: (key: string): boolean => headerPrefixes.some((prefix) => key.startsWith(prefix)),
    /** Returns the configured product's name of a protocol header, `X-Engine-User` of `X-Trino-User`; other names as they are. */
    ownHeader,
    /** Returns the names under which clusters get a protocol header (`protocol.clusterHeaders`). @param name as `ownHeader` returns it */
    clusterNames,
    clusterHeaders: (suffix: string, value: string): Readonly<Record<string, string>> =>
      Object.fromEntries(clusterNames(headerPrefix + suffix).map((name) => [name, value])),
    /** Returns the keys of a protocol header in responses of clusters; the first one that is present counts. */
    responseKeys: (suffix: string): readonly string[] => headerPrefixes.map((prefix) => prefix + suffix.toLowerCase()),
    /** Product in names at clusters that have only one, such as names of MBeans. */
    clusterProduct: toCluster === 'Both' ? productName : toCluster,
    /** First path segment of the resource group API: `engine`. */
    pathSegment: lower,
    /** That segment under every product name that the gateway reads, between slashes: `/engine/` and `/trino/`. */
    pathSegments: products.map((product) => `/${product.toLowerCase()}/`),
    /** Path of the gateway's own pages and probes: `/engine-gateway`. */
    gatewayPath: `/${lower}-gateway`,
    /** Field of a cluster's status in the public reads: `engineStatus`. */
    statusField: `${camelCase(productName)}Status`,
    /** Names of the cookie of the engine's web interface with a JWT: `Engine-UI-Token` and `Trino-UI-Token`. */
    uiTokenCookies,
    /** Names of the engine's identity token cookie: `__Secure-Engine-ID-Token` and `__Secure-Trino-ID-Token`. */
    idTokenCookies,
    /** Returns the names under which clusters get one of these cookies; null for other cookies. */
    clusterCookies: (name: string): readonly string[] | null => {
      const nameOf = uiTokenCookies.includes(name)
        ? uiTokenCookie
        : idTokenCookies.includes(name)
          ? idTokenCookie
          : null;
      return nameOf === null ? null : clusterProducts.map(nameOf);
    },
    /** Name of the extracted user in rules: `engineRequestUser`. */
    requestUserObject: requestUserObject(productName),
    /** Name of the analyzed query in rules: `engineQueryProperties`. */
    queryPropertiesObject: queryPropertiesObject(productName),
    /** Returns the name of a rule object under the configured product, `engineRequestUser` of `trinoRequestUser`; others as they are. */
    ownObject: (name: string): string => objects.get(name) ?? name,
    /** The gateway's name in `Via`: `EngineGateway`. */
    gateway: `${productName}Gateway`,
    /** Cookie naming the cluster's host (`includeClusterHostInResponse`): `engineClusterHost`. */
    clusterHostCookie: `${camelCase(productName)}ClusterHost`,
    /** True for the product name of Trino Gateway, whose installations expect its defaults (docs/migration.md). */
    isReference,
    /**
     * Prefix of the gateway's sticky cookies: the product's initials and a dot. `EG.` instead of `TG.`: Trino Gateway
     * responds with 500 to cookies of that prefix from other programs, and both may be behind one address.
     */
    stickyCookiePrefix,
  };
}

/**
 * All names that contain the product's name, derived from `protocol.productName` (docs/protocol.md#product-names): with
 * "Trino" the program serves real Trino clients and clusters.
 */
export type ProductNames = Readonly<ReturnType<typeof productNames>>;

/**
 * Returns the paths of the gateway's pages under the product names that are not configured, such as `/engine-gateway`
 * for Trino.
 */
export function otherGatewayPaths(names: ProductNames): readonly string[] {
  return PROTOCOL_PRODUCTS.map((product) => `/${product.toLowerCase()}-gateway`).filter(
    (path) => path !== names.gatewayPath,
  );
}

const camelCase = (product: string): string => product.charAt(0).toLowerCase() + product.slice(1);
const requestUserObject = (product: string): string => `${camelCase(product)}RequestUser`;
const queryPropertiesObject = (product: string): string => `${camelCase(product)}QueryProperties`;
const uiTokenCookie = (product: string): string => `${product}-UI-Token`;
const idTokenCookie = (product: string): string => `__Secure-${product}-ID-Token`;
