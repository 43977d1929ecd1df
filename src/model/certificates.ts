import { X509Certificate } from 'node:crypto';

const block = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** The certificates in a PEM text, in order; other blocks are passed over. Throws where one cannot be read. */
export function certificatesIn(pem: string): readonly X509Certificate[] {
  return Array.from(pem.matchAll(block), ([text]) => new X509Certificate(text));
}

/** What is wrong with a PEM text that should hold certificates; null when it does. */
export function certificatesProblem(pem: string): string | null {
  try {
    return certificatesIn(pem).length === 0 ? 'must hold at least one certificate in PEM' : null;
  } catch (error) {
    return `holds a certificate that cannot be read: ${error instanceof Error ? error.message : String(error)}`;
  }
}
