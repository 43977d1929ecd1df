import { isIP } from 'node:net';

/** Header lines as Node's `rawHeaders`: name, value, name, value, … in order of arrival. */
export type RawHeaders = readonly string[];

/** Values of a request's header lines by name in lower case, read once for each request. */
export type HeaderFields = ReadonlyMap<string, readonly string[]>;

export function headerFields(headers: RawHeaders): HeaderFields {
  const fields = new Map<string, string[]>();
  for (let index = 0; index + 1 < headers.length; index += 2) {
    fields.getOrInsert((headers[index] as string).toLowerCase(), []).push(headers[index + 1] as string);
  }
  return fields;
}

/** True if a header line has the given name, ignoring case (RFC 9110 §5.1). @param key name in lower case */
export function isHeader(name: string, key: string): boolean {
  if (name.length !== key.length) return false;
  for (let index = name.length - 1; index >= 0; index -= 1) {
    const unit = name.charCodeAt(index);
    const expected = key.charCodeAt(index);
    if (unit !== expected && (unit < 65 || unit > 90 || unit + 32 !== expected)) return false;
  }
  return true;
}

/**
 * Value of a header's first line. `request.headers` has the first, the last or all joined, depending on the name.
 * @param key name in lower case
 */
export function firstHeader(headers: RawHeaders, key: string): string | undefined {
  for (let index = 0; index < headers.length; index += 2) {
    if (isHeader(headers[index] as string, key)) return headers[index + 1];
  }
  return undefined;
}

/**
 * Values of a header's lines.
 * @param key name in lower case
 */
export function headerValues(headers: RawHeaders, key: string): readonly string[] {
  let values: string[] | null = null;
  for (let index = 0; index + 1 < headers.length; index += 2) {
    if (!isHeader(headers[index] as string, key)) continue;
    values ??= [];
    values.push(headers[index + 1] as string);
  }
  return values ?? noValues;
}
const noValues: readonly string[] = [];

/** A host in `Host` (RFC 9110 §7.2) and `:authority` (RFC 9113 §8.3.1). */
export interface RequestHost {
  /** Name or IPv4 address in lower case without a trailing dot, or an IPv6 address in its short form in brackets. */
  readonly name: string;
  /** Null: the default port of the scheme. */
  readonly port: number | null;
}

const form = /^(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9_])?\.?)(?::(\d{0,5}))?$/;

/**
 * Parses a host with an optional port, strictly: anything that a browser would not send, such as user info, white space
 * or an IPv4 address in another form than four decimal numbers, is null.
 */
export function parseHost(text: string): RequestHost | null {
  const match = form.exec(text);
  const host = match?.[1];
  if (host === undefined) return null;
  const name = host.startsWith('[') ? shortIpv6(host) : nameOf(host);
  const port = match?.[2] === undefined || match[2] === '' ? null : Number(match[2]);
  return name === null || (port !== null && (port < 1 || port > 65_535)) ? null : { name, port };
}

/**
 * True if a request names one of the hosts.
 * @param hosts one without a port stands for every port
 * @param host without a port, both default ports match: a proxy in front may terminate TLS without reporting it
 */
export function namesOneOf(hosts: readonly RequestHost[], host: RequestHost): boolean {
  return hosts.some(({ name, port }) => {
    if (name !== host.name) return false;
    return port === null || (host.port === null ? port === 80 || port === 443 : port === host.port);
  });
}

function nameOf(host: string): string | null {
  const name = (host.endsWith('.') ? host.slice(0, -1) : host).toLowerCase();
  if (name.length > 253 || name.split('.').some((label) => label === '' || label.length > 63)) return null;
  // A numeric last label makes it an IPv4 address (WHATWG URL, "ends in a number").
  const last = name.slice(name.lastIndexOf('.') + 1);
  return /^(?:\d+|0x[0-9a-f]*)$/.test(last) && isIP(name) !== 4 ? null : name;
}

function shortIpv6(literal: string): string | null {
  return isIP(literal.slice(1, -1)) === 6 ? (URL.parse(`http://${literal}/`)?.hostname ?? null) : null;
}
