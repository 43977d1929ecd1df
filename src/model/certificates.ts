import { X509Certificate } from 'node:crypto';

const block = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** The certificates in a PEM text, in order; ignores other blocks. Throws if one cannot be read. */
export function certificatesIn(pem: string): readonly X509Certificate[] {
  return Array.from(pem.matchAll(block), ([text]) => new X509Certificate(text));
}

/** Returns the mistake in a PEM text with certificates, or null. */
export function certificatesProblem(pem: string): string | null {
  try {
    return certificatesIn(pem).length === 0 ? 'must hold at least one certificate in PEM' : null;
  } catch (error) {
    return `holds a certificate that cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}
