import { exceededBound } from '../../model/jsonShape.ts';
import type { ProductNames } from '../../model/names.ts';

/** A valid response of the external rules service. */
export interface ExternalReply {
  /** The group; null only with errors. */
  readonly routingGroup: string | null;
  /** Null: no errors. */
  readonly errors: readonly string[] | null;
  readonly headers: Readonly<Record<string, string>>;
}

export type ParsedReply = { readonly reply: ExternalReply } | { readonly problem: string };

/**
 * Maximum size of a response in bytes, regardless of the configuration: a group, errors and headers are far shorter,
 * and parsing more would delay all requests.
 */
export const MAX_REPLY_BYTES = 1_048_576;

/** Limits of a reply's JSON. */
const BOUNDS = { values: 5_000, depth: 100 };

/** Maximum total length of names and values of headers: clusters reject requests with longer headers. */
const MAX_HEADERS_LENGTH = 65_536;

/** Headers of the connection to the cluster, or written by the gateway. */
const neverSet = new Set([
  'connection',
  'content-length',
  'expect',
  'forwarded',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'via',
]);

/** RFC 9110 §5.6.2 and §5.5: valid names of headers. */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/**
 * Parses a response (docs/rules.md#an-external-rules-service): JSON, exactly one group, errors, headers. Ignores
 * headers that rules never set (hop-by-hop, Host, Content-Length, forwarded ones) and those in `excludeHeaders`.
 * @param excluded `excludeHeaders`, lower-case, under the names of the configured product
 */
export function parseReply(text: string, excluded: ReadonlySet<string>, names: ProductNames): ParsedReply {
  const exceeded = exceededBound(text, BOUNDS);
  if (exceeded === 'values') return { problem: `its answer has more than ${BOUNDS.values} values` };
  if (exceeded === 'depth') return { problem: `its answer is nested more than ${BOUNDS.depth} levels deep` };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return { problem: 'its answer is not JSON' };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return { problem: 'its answer is not a JSON object' };
  }
  const { routingGroup, errors, externalHeaders } = value as Record<string, unknown>;
  const messages = errorsOf(errors);
  if (messages === undefined) return { problem: 'errors is neither null nor an array of texts' };
  const headers = headersOf(externalHeaders, excluded, names);
  if (typeof headers === 'string') return { problem: headers };
  if (typeof routingGroup === 'string' && routingGroup.trim() !== '') {
    return { reply: { routingGroup, errors: messages, headers } };
  }
  const isMissing = routingGroup === undefined || routingGroup === null;
  if (messages !== null && isMissing) return { reply: { routingGroup: null, errors: messages, headers } };
  return { problem: 'routingGroup does not name exactly one group' };
}

/** Undefined: malformed. */
function errorsOf(errors: unknown): readonly string[] | null | undefined {
  if (errors === undefined || errors === null) return null;
  if (!Array.isArray(errors) || errors.some((error) => typeof error !== 'string')) return undefined;
  return errors;
}

function headersOf(
  value: unknown,
  excluded: ReadonlySet<string>,
  { ownHeader }: ProductNames,
): Readonly<Record<string, string>> | string {
  if (value === undefined || value === null) return {};
  if (typeof value !== 'object' || Array.isArray(value)) return 'externalHeaders is not an object';
  const byKey = new Map<string, readonly [string, string]>();
  let length = 0;
  for (const [name, line] of Object.entries(value)) {
    if (typeof line !== 'string') return `externalHeaders.${name.slice(0, 64)} is not a text`;
    if (!token.test(name)) return 'externalHeaders holds a name that cannot be a header name';
    if (!fieldValue.test(line)) return `externalHeaders.${name.slice(0, 64)} holds characters that no header can`;
    length += name.length + line.length;
    if (length > MAX_HEADERS_LENGTH) return `externalHeaders is longer than ${MAX_HEADERS_LENGTH} characters`;
    const own = ownHeader(name);
    const key = own.toLowerCase();
    if (neverSet.has(key) || key.startsWith('x-forwarded-') || excluded.has(key)) continue;
    byKey.set(key, [own, line]);
  }
  return Object.fromEntries(byKey.values());
}
