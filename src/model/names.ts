/**
 * All names that carry the product's name, made in one place from `protocol.productName`
 * (docs/protocol.md#product-names): with "Trino" the program serves real Trino clients and clusters.
 */
export interface ProductNames {
  /** Whether the product is the one of the reference gateway, whose installations expect its defaults (docs/migration.md). */
  readonly isReference: boolean;
  /** The configured product name, e.g. `Engine` or `Trino`. */
  readonly product: string;
  /** `X-<Product>-<suffix>`, e.g. `header('Routing-Group')` is `X-Engine-Routing-Group`. */
  header(suffix: string): string;
  /** The same in lower case, as Node gives incoming header names. */
  headerKey(suffix: string): string;
  /** True if a header belongs to the protocol of engines, under any name that the gateway reads. @param key name in lower case */
  isProtocolHeader(key: string): boolean;
  /** First path segment of the resource group API: `engine`. */
  readonly pathSegment: string;
  /** Path of the gateway's own pages and probes: `/engine-gateway`. */
  readonly gatewayPath: string;
  /** Field of a cluster's status in the public reads: `engineStatus`. */
  readonly statusField: string;
  /** Cookie of the engine's web interface that may hold a JWT: `Engine-UI-Token`. */
  readonly uiTokenCookie: string;
  /** The engine's identity token cookie: `__Secure-Engine-ID-Token`. */
  readonly idTokenCookie: string;
  /** Name of the extracted user in rules: `engineRequestUser`. */
  readonly requestUserObject: string;
  /** Name of the analysed query in rules: `engineQueryProperties`. */
  readonly queryPropertiesObject: string;
  /** The gateway's own name in `Via`: `EngineGateway`. */
  readonly gateway: string;
  /** Cookie naming the cluster's host (`includeClusterHostInResponse`): `engineClusterHost`. */
  readonly clusterHostCookie: string;
  /**
   * Prefix of the gateway's sticky cookies: the product's initials and a dot. `EG.` where that would be `TG.`: the reference
   * answers 500 to cookies of that prefix which are not its own, and both may stand behind one address.
   */
  readonly stickyCookiePrefix: string;
  /** Cookie that keeps a browser on one cluster's pages: `EG.UI`. */
  readonly pageCookie: string;
  /** Prefix of the names under which browsers keep clusters' cookies: `EG-`. */
  readonly engineCookiePrefix: string;
}

/** Product name of installations of the reference gateway, which knows no other. */
export const REFERENCE_PRODUCT = 'Trino';
/** Product names under which the gateway reads the headers of clients, in addition to the configured one. */
const PROTOCOL_PRODUCTS = ['Engine', REFERENCE_PRODUCT] as const;
/** What its cookies begin with, before a dot. */
const REFERENCE_INITIALS = 'TG';

/**
 * Makes the product's names.
 * @param productName letters and digits, starting with an upper-case letter, e.g. `Engine`, `Trino`
 */
export function productNames(productName: string): ProductNames {
  const lower = productName.toLowerCase();
  const headerPrefix = `X-${productName}-`;
  const headerKeyPrefix = headerPrefix.toLowerCase();
  const camel = productName.charAt(0).toLowerCase() + productName.slice(1);
  const initials = `${productName.charAt(0).toUpperCase()}G`;
  const protocolPrefixes = [productName, ...PROTOCOL_PRODUCTS].map((product) => `x-${product.toLowerCase()}-`);
  const stickyCookiePrefix = initials === REFERENCE_INITIALS ? 'EG.' : `${initials}.`;
  return {
    product: productName,
    header: (suffix) => headerPrefix + suffix,
    headerKey: (suffix) => headerKeyPrefix + suffix.toLowerCase(),
    isProtocolHeader: (key) => protocolPrefixes.some((prefix) => key.startsWith(prefix)),
    pathSegment: lower,
    gatewayPath: `/${lower}-gateway`,
    statusField: `${camel}Status`,
    uiTokenCookie: `${productName}-UI-Token`,
    idTokenCookie: `__Secure-${productName}-ID-Token`,
    requestUserObject: `${camel}RequestUser`,
    queryPropertiesObject: `${camel}QueryProperties`,
    gateway: `${productName}Gateway`,
    clusterHostCookie: `${camel}ClusterHost`,
    isReference: productName === REFERENCE_PRODUCT,
    stickyCookiePrefix,
    pageCookie: `${stickyCookiePrefix}UI`,
    engineCookiePrefix: `${initials}-`,
  };
}

/** Returns the paths of the gateway's pages under the product names that are not configured, such as `/engine-gateway` for Trino. */
export function otherGatewayPaths(names: ProductNames): readonly string[] {
  return PROTOCOL_PRODUCTS.map((product) => `/${product.toLowerCase()}-gateway`).filter(
    (path) => path !== names.gatewayPath,
  );
}
