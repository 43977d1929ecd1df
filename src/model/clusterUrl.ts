import { specialAddress } from './networkAddress.ts';

/** Maximum length of a URL in cluster columns (contract: `gateway_backend.backend_url varchar(256)`). */
export const MAX_CLUSTER_URL_LENGTH = 256;

/** Scheme, host (name, IPv4 or bracketed IPv6), port, path; all in printable ASCII. */
const form = /^(https?):\/\/(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?\.?)(?::([0-9]+))?(\/.*)?$/;

/**
 * Returns the mistake in a cluster's URL (`proxyTo`, `externalUrl`), or null. Requests go to `<url><raw path>?<raw
 * query>`, so a query, a fragment or credentials in it have no meaning.
 * @returns a sentence with the mistake and the fix, without the field's name
 */
export function clusterUrlProblem(text: string): string | null {
  if (text === '') return 'is empty; give a URL such as http://engine-1.example:8080';
  if (text.length > MAX_CLUSTER_URL_LENGTH) {
    return `has ${text.length} characters; at most ${MAX_CLUSTER_URL_LENGTH} fit`;
  }
  if (/[^\x21-\x7e]/.test(text)) {
    return 'holds white space, control or non-ASCII characters; write the host name in its ASCII form (xn--…) and percent-encode the path';
  }
  if (!/^https?:\/\//.test(text)) return 'must start with http:// or https://, in lower case';
  const authority = text.slice(text.indexOf('//') + 2).split(/[/?#]/, 1)[0] ?? '';
  if (authority.includes('@')) {
    return 'must not hold credentials; leave out the part before the @ (health checks take theirs from the configuration or a Secret)';
  }
  if (text.includes('?')) return 'must not hold a query; leave out everything from the ?';
  if (text.includes('#')) return 'must not hold a fragment; leave out everything from the #';
  if (authority === '') return 'names no host; write it after http:// or https://';
  const match = form.exec(text);
  const port = match?.[3];
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535)) {
    return `has port ${port}; ports are 1 to 65535`;
  }
  if (match === null || !hostIsAsWritten(text, match[2] ?? '')) {
    return `has no valid host and port: ${JSON.stringify(authority)}`;
  }
  const address = (match[2] ?? '').replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
  if (specialAddress(address) === 'unusable') {
    return `names the address ${address}, which no server can have; give that of the cluster`;
  }
  const path = match[4] ?? '';
  if (path.includes('\\') || path.split('/').some(isDotSegment)) {
    return 'must not hold a backslash or a . or .. segment in its path';
  }
  return null;
}

/** The stored form of cluster URLs: without one trailing `/` (docs/compatibility.md#cluster-registry). */
export function storedClusterUrl(text: string): string {
  return text.endsWith('/') ? text.slice(0, -1) : text;
}

/**
 * WHATWG URLs read `http://8080` as 0.0.31.144 and `http://0x7f.1` as 127.0.0.1: both are almost certainly mistakes.
 */
function hostIsAsWritten(text: string, host: string): boolean {
  const url = URL.parse(text);
  return url !== null && (host.startsWith('[') || url.hostname === host.toLowerCase());
}

function isDotSegment(segment: string): boolean {
  const plain = segment.replaceAll(/%2e/gi, '.');
  return plain === '.' || plain === '..';
}
