import type { X509Certificate } from 'node:crypto';

/** An attribute of a distinguished name (RFC 5280 §4.1.2.4). */
export interface NameAttribute {
  /** Keyword such as `CN` or `EMAILADDRESS`; the dotted object identifier for other types. */
  readonly type: string;
  /** Null if the value is not a text. */
  readonly value: string | null;
  readonly encoded: Buffer;
}

/**
 * A distinguished name: relative names in the order of the certificate, root first, each with one or more attributes.
 */
export type DistinguishedName = readonly (readonly NameAttribute[])[];

export interface CertificateNames {
  readonly subject: DistinguishedName;
  readonly issuer: DistinguishedName;
  /** Subject alternative names (RFC 5280 §4.2.1.6). */
  readonly dns: readonly string[];
  readonly emails: readonly string[];
  readonly uris: readonly string[];
}

/** Keywords of attribute types by object identifier, as Java's `X500Principal.toString()` writes them. */
const KEYWORDS: ReadonlyMap<string, string> = new Map([
  ['2.5.4.3', 'CN'],
  ['2.5.4.6', 'C'],
  ['2.5.4.7', 'L'],
  ['2.5.4.8', 'ST'],
  ['2.5.4.10', 'O'],
  ['2.5.4.11', 'OU'],
  ['2.5.4.12', 'T'],
  ['1.3.6.1.4.1.42.2.11.2.1', 'IP'],
  ['2.5.4.9', 'STREET'],
  ['0.9.2342.19200300.100.1.25', 'DC'],
  ['2.5.4.46', 'DNQ'],
  ['2.5.4.4', 'SURNAME'],
  ['2.5.4.42', 'GIVENNAME'],
  ['2.5.4.43', 'INITIALS'],
  ['2.5.4.44', 'GENERATION'],
  ['1.2.840.113549.1.9.1', 'EMAILADDRESS'],
  ['0.9.2342.19200300.100.1.1', 'UID'],
  ['2.5.4.5', 'SERIALNUMBER'],
]);

/** Tags of ASN.1 (X.680) in certificates. */
const Tag = { sequence: 0x30, octets: 0x04, extensions: 0xa3, version: 0xa0, oid: 0x06 } as const;
const SUBJECT_ALTERNATIVE_NAME = '2.5.29.17';

interface Element {
  readonly tag: number;
  readonly content: Buffer;
  readonly whole: Buffer;
}

/**
 * Reads the names of a certificate from its bytes: the output of libraries is ambiguous for some values.
 * @throws Error for bytes that are not a certificate, which OpenSSL has rejected before
 */
export function certificateNames({ raw }: Pick<X509Certificate, 'raw'>): CertificateNames {
  const [certificate] = elementsIn(raw);
  const [body] = elementsIn(certificate?.content ?? raw);
  const fields = elementsIn(body?.content ?? raw);
  // Absent in certificates of version 1.
  const first = fields[0]?.tag === Tag.version ? 1 : 0;
  const [issuer, subject] = [fields[first + 2], fields[first + 4]];
  if (issuer === undefined || subject === undefined) throw new Error('the certificate has no subject');
  const alternatives = alternativeNames(fields.find(({ tag }) => tag === Tag.extensions));
  // RFC 5280 §4.2.1.6: rfc822Name [1], dNSName [2], uniformResourceIdentifier [6], all IA5String.
  const textsOf = (tag: number) =>
    alternatives.flatMap((element) => (element.tag === tag ? [element.content.toString('latin1')] : []));
  return {
    subject: nameIn(subject),
    issuer: nameIn(issuer),
    dns: textsOf(0x82),
    emails: textsOf(0x81),
    uris: textsOf(0x86),
  };
}

/**
 * A distinguished name as text, leaf first, exactly as Java's `X500Principal.toString()` writes it: engines map this
 * text, and rules for them must mean the same here.
 */
export function nameText(name: DistinguishedName): string {
  return name.toReversed().map(relativeText).join(', ');
}

function relativeText(attributes: readonly NameAttribute[]): string {
  return attributes.map(attributeText).join(' + ');
}

/** Characters that require quotes. */
const special = /[,+=\n<>#;\\"]/;

function attributeText({ type, value, encoded }: NameAttribute): string {
  const keyword = /^[0-9]/.test(type) ? `OID.${type}` : type;
  if (value === null) return `${keyword}=#${encoded.toString('hex')}`;
  if (value.length > 1 && value.startsWith('"') && value.endsWith('"')) {
    return `${keyword}="${escaped(value.slice(1, -1))}"`;
  }
  const needsQuotes = special.test(value) || /^[ \n]|[ \n]$|[ \n]{2}/.test(value);
  return `${keyword}=${needsQuotes ? `"${escaped(value)}"` : value}`;
}

function escaped(text: string): string {
  return text.replace(/["\\]/g, '\\$&');
}

function nameIn({ content }: Element): DistinguishedName {
  return elementsIn(content).map((relative) => elementsIn(relative.content).map(attributeIn));
}

function attributeIn({ content }: Element): NameAttribute {
  const [type, value] = elementsIn(content);
  if (type === undefined || value === undefined) throw new Error('an attribute of a name has no value');
  const oid = oidText(type.content);
  return { type: KEYWORDS.get(oid) ?? oid, value: textOf(value), encoded: value.whole };
}

function alternativeNames(extensions: Element | undefined): readonly Element[] {
  if (extensions === undefined) return [];
  const [list] = elementsIn(extensions.content);
  for (const extension of list === undefined ? [] : elementsIn(list.content)) {
    const parts = elementsIn(extension.content);
    const [type] = parts;
    if (type?.tag !== Tag.oid || oidText(type.content) !== SUBJECT_ALTERNATIVE_NAME) continue;
    const value = parts.find(({ tag }) => tag === Tag.octets);
    const [names] = value === undefined ? [] : elementsIn(value.content);
    return names === undefined ? [] : elementsIn(names.content);
  }
  return [];
}

/** Text of a string type; null for other types. */
function textOf({ tag, content }: Element): string | null {
  switch (tag) {
    case 0x0c: // UTF8String
      return content.toString('utf8');
    case 0x13: // PrintableString
    case 0x16: // IA5String
    case 0x14: // T61String
    case 0x1b: // GeneralString
      return content.toString('latin1');
    case 0x1e: // BMPString
      return Buffer.from(content.subarray(0, content.length & ~1))
        .swap16()
        .toString('utf16le');
    case 0x1c: // UniversalString
      return universalText(content);
    default:
      return null;
  }
}

function universalText(content: Buffer): string {
  let text = '';
  for (let at = 0; at + 4 <= content.length; at += 4) {
    const codePoint = content.readUInt32BE(at);
    text += codePoint > 0x10ffff ? '\ufffd' : String.fromCodePoint(codePoint);
  }
  return text;
}

/** An object identifier in dotted form (X.690 §8.19). */
function oidText(bytes: Buffer): string {
  const arcs: number[] = [];
  let arc = 0;
  for (const byte of bytes) {
    arc = arc * 128 + (byte & 0x7f);
    if ((byte & 0x80) !== 0) continue;
    if (arcs.length === 0) {
      const root = Math.min(2, Math.trunc(arc / 40));
      arcs.push(root, arc - root * 40);
    } else arcs.push(arc);
    arc = 0;
  }
  return arcs.join('.');
}

/** The elements in DER bytes (X.690 §8.1). */
function elementsIn(bytes: Buffer): readonly Element[] {
  const elements: Element[] = [];
  for (let at = 0; at < bytes.length; ) {
    const start = at;
    const tag = bytes[at] ?? 0;
    let length = bytes[at + 1] ?? 0;
    at += 2;
    if (length >= 0x80) {
      const count = length & 0x7f;
      if (count === 0 || count > 4 || at + count > bytes.length) throw new Error('not DER: a length of no known form');
      length = bytes.readUIntBE(at, count);
      at += count;
    }
    if (at + length > bytes.length) throw new Error('not DER: an element is longer than what holds it');
    elements.push({ tag, content: bytes.subarray(at, at + length), whole: bytes.subarray(start, at + length) });
    at += length;
  }
  return elements;
}
