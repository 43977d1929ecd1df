import { X509Certificate } from 'node:crypto';

/** Maximum length of a parsed header value, in characters: a chain of a few certificates. */
const MAX_HEADER_LENGTH = 65_536;

/**
 * Parses the client's certificate in a header of a proxy: PEM, also with `%` escapes (nginx, HAProxy) or with spaces
 * for line ends; base64 of DER (Traefik; of several, with commas between, the first); `:base64:` (RFC 9440,
 * `Client-Cert`); or the `Cert` of the last element of Envoy's `X-Forwarded-Client-Cert`.
 * @returns the certificate; null for an invalid value
 */
export function certificateInHeader(value: string): X509Certificate | null {
  if (value.length > MAX_HEADER_LENGTH) return null;
  const plain = decoded(envoyCertificate(value) ?? value);
  if (plain === null) return null;
  const pem = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----/.exec(plain)?.[1];
  const base64 = pem ?? /^\s*:?([A-Za-z0-9+/]+={0,2})(?::\s*$|\s*$|\s*,)/.exec(plain)?.[1];
  if (base64 === undefined) return null;
  try {
    return new X509Certificate(Buffer.from(base64.replace(/\s+/g, ''), 'base64'));
  } catch {
    return null;
  }
}

/** The last element is that of the proxy at the other end of the connection; earlier ones were sent to it. */
function envoyCertificate(value: string): string | null {
  if (!/(?:^|[;,])\s*(?:By|Hash|Cert|Chain|Subject|URI|DNS)=/i.test(value)) return null;
  const last = elementsOf(value).at(-1) ?? '';
  return /(?:^|;)\s*Cert="?([^";,]*)"?/i.exec(last)?.[1] ?? '';
}

function elementsOf(value: string): readonly string[] {
  const elements: string[] = [];
  let isQuoted = false;
  let start = 0;
  for (let at = 0; at < value.length; at += 1) {
    const char = value[at];
    if (isQuoted && char === '\\') at += 1;
    else if (char === '"') isQuoted = !isQuoted;
    else if (char === ',' && !isQuoted) {
      elements.push(value.slice(start, at));
      start = at + 1;
    }
  }
  elements.push(value.slice(start));
  return elements;
}

function decoded(text: string): string | null {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}
