import { type CertificateNames, nameText } from '../../model/certificateNames.ts';
import { GatewayError } from '../../model/errors.ts';
import type { ProductNames } from '../../model/names.ts';
import { compileTextExpression, type TextValues } from '../../rules/textExpression.ts';
import { checkedUser, type MappedUser, type MappingRuleSource, mappedUser, openMappingRules } from './mappingRules.ts';

/**
 * Settings of the mapping from certificates to users (`requestAnalyzerConfig.clientCertificate…`,
 * docs/client-certificates.md).
 */
export interface UserMappingSettings {
  readonly clientCertificateIdentityField: string | null;
  readonly clientCertificateUserMappingPattern: string | null;
  readonly clientCertificateUserMappingFile: string | null;
  readonly clientCertificateUserExpression: string | null;
}

export type UserMapping = (names: CertificateNames) => MappedUser;

const SECTION = 'requestAnalyzerConfig';
const SUBJECT_DN = 'SUBJECT_DN';
/**
 * Creates the configured mapping; null if certificates do not identify users. Reads the file of rules.
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
 */
export async function openUserMapping(settings: UserMappingSettings, names: ProductNames): Promise<UserMapping | null> {
  const { clientCertificateIdentityField: field, clientCertificateUserExpression: expression } = settings;
  if (expression !== null) return byExpression(expression, names);
  if (field === null) return null;
  const rules = await openMappingRules(sourceOf(settings));
  if (field.toUpperCase() !== SUBJECT_DN && rules.some(({ allow }) => !allow)) {
    throw impossible(
      'clientCertificateIdentityField',
      `must be ${SUBJECT_DN}, as ${SECTION}.clientCertificateUserMappingFile has rules with "allow": false: these are written for the whole subject, and would let pass here what they deny there`,
    );
  }
  return (certificate) => {
    const identity = identityOf(certificate, field);
    if (identity === null) return { refusal: `it has no ${field}, which users are taken from` };
    return mappedUser(rules, identity);
  };
}

function sourceOf(settings: UserMappingSettings): MappingRuleSource {
  const { clientCertificateUserMappingPattern: value, clientCertificateUserMappingFile: path } = settings;
  return {
    pattern: { key: `${SECTION}.clientCertificateUserMappingPattern`, value },
    file: { key: `${SECTION}.clientCertificateUserMappingFile`, path },
  };
}

/** The value of a certificate's field; of several the first, in a subject the nearest to the leaf. Null if missing. */
function identityOf(names: CertificateNames, field: string): string | null {
  return certificateValues(names, field)[0] ?? null;
}

/**
 * All values of a certificate's field, in a subject the nearest to the leaf first.
 * @param field as `clientCertificateIdentityField`
 */
export function certificateValues(names: CertificateNames, field: string): readonly string[] {
  const type = field.toUpperCase().replace(/^OID\./, '');
  const candidates =
    type === SUBJECT_DN
      ? [nameText(names.subject)]
      : type === 'SAN_DNS'
        ? names.dns
        : type === 'SAN_EMAIL'
          ? names.emails
          : type === 'SAN_URI'
            ? names.uris
            : names.subject
                .toReversed()
                .flat()
                .flatMap((attribute) => (attribute.type === type && attribute.value !== null ? [attribute.value] : []));
  return candidates.filter((text) => text.trim() !== '');
}

function byExpression(source: string, names: ProductNames): UserMapping {
  const key = 'clientCertificateUserExpression';
  const expression = compileTextExpression(source, 'certificate', names);
  if ('problem' in expression) {
    throw impossible(key, `${expression.problem}; the certificate is "certificate" (docs/client-certificates.md)`);
  }
  return (certificate) => {
    const result = expression.run(valuesOf(certificate));
    if ('failure' in result) return { refusal: `${SECTION}.${key} fails for it: ${result.failure}` };
    return result.text === null ? { refusal: `${SECTION}.${key} gives no user for it` } : checkedUser(result.text);
  };
}

function valuesOf({ subject, issuer, dns, emails, uris }: CertificateNames): TextValues {
  // Root first, so that the value nearest to the leaf stays.
  const attributes = subject.flat().flatMap(({ type, value }) => (value === null ? [] : [[type, value] as const]));
  return { ...Object.fromEntries(attributes), subject: nameText(subject), issuer: nameText(issuer), dns, emails, uris };
}

function impossible(key: string, why: string): GatewayError {
  const field = `${SECTION}.${key}`;
  return new GatewayError('EG_IMPOSSIBLE', `${field}: ${why}.`, { field });
}
