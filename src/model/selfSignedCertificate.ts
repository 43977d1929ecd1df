import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** A certificate with its key, as PEM. */
export interface CertificatePair {
  readonly certificate: string;
  readonly key: string;
}

/** Encodes a value of DER (X.690). */
function der(tag: number, ...parts: readonly (Buffer | string | readonly number[])[]): Buffer {
  const body = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part))));
  const { length } = body;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
}

const sequence = (...parts: readonly Buffer[]): Buffer => der(0x30, ...parts);
const identifier = (hex: string): Buffer => der(0x06, Buffer.from(hex, 'hex'));
const ECDSA_WITH_SHA256 = sequence(identifier('2a8648ce3d040302'));
const COMMON_NAME = identifier('550403');
const SUBJECT_ALTERNATIVE_NAME = identifier('551d11');

/** UTCTime, which certificates use for years before 2050, e.g. `261127031500Z`. */
function utcTime(milliseconds: number): Buffer {
  return der(0x17, `${new Date(milliseconds).toISOString().replaceAll(/[-:T]/g, '').slice(2, 14)}Z`);
}

/**
 * Creates a self-signed certificate (RFC 5280) with a new key of the curve P-256. Node.js can read certificates, and not create them.
 * @param host a DNS name
 * @param from start of validity in milliseconds since 1970
 * @param until its end, before the year 2050
 */
export function selfSignedCertificate(host: string, from: number, until: number): CertificatePair {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const name = sequence(der(0x31, sequence(COMMON_NAME, der(0x0c, 'engine-gateway webhook'))));
  const extension = sequence(SUBJECT_ALTERNATIVE_NAME, der(0x04, sequence(der(0x82, host))));
  const content = sequence(
    der(0xa0, der(0x02, [2])),
    // A positive number: its first bit is not set.
    der(0x02, [1], randomBytes(15)),
    ECDSA_WITH_SHA256,
    name,
    sequence(utcTime(from), utcTime(until)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(extension)),
  );
  const certificate = sequence(content, ECDSA_WITH_SHA256, der(0x03, [0], sign('sha256', content, privateKey)));
  const lines = certificate.toString('base64').match(/.{1,64}/g) ?? [];
  return {
    certificate: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}
