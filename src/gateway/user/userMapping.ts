import type { Logger } from 'pino';
import type { Followed } from '../../config/followedFiles.ts';
import { type CertificateNames, nameText } from '../../model/certificateNames.ts';
import { GatewayError } from '../../model/errors.ts';
import type { ProductNames } from '../../model/names.ts';
import { compileTextExpression, type TextValues } from '../../rules/textExpression.ts';
import { checkedUser, followMapping, type MappedUser, mappedUser, openMappingRules } from './mappingRules.ts';

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
  const { clientCertificateUserMappingPattern, clientCertificateUserMappingFile } = settings;
  const rules = await openMappingRules(
    { key: `${SECTION}.clientCertificateUserMappingPattern`, value: clientCertificateUserMappingPattern },
    { key: `${SECTION}.clientCertificateUserMappingFile`, value: clientCertificateUserMappingFile },
  );
  if (field.toUpperCase() !== SUBJECT_DN && rules.some(({ allow }) => !allow)) {
    throw impossible(
      'clientCertificateIdentityField',
      `must be ${SUBJECT_DN}, as ${SECTION}.clientCertificateUserMappingFile has rules with "allow": false: these are written for the whole subject, and would let pass here what they deny there`,
    );
  }
  return (certificate) => {
    const [identity] = certificateValues(certificate, field);
    if (identity === undefined) return { refusal: `it has no ${field}, which users are taken from` };
    return mappedUser(rules, identity);
  };
}

/**
 * Creates the configured mapping and follows its file, if any. Null if certificates do not identify users.
 * @param refreshTime milliseconds between two reads of the file
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix, at the start
 */
export async function followUserMapping(
  settings: UserMappingSettings,
  names: ProductNames,
  refreshTime: number,
  logger: Logger,
): Promise<Followed<UserMapping> | null> {
  const { clientCertificateIdentityField: field, clientCertificateUserExpression: expression } = settings;
  if (field === null && expression === null) return null;
  const open = async () => (await openUserMapping(settings, names)) as UserMapping;
  return await followMapping(settings.clientCertificateUserMappingFile, open, refreshTime, logger);
}

/**
 * All values of a certificate's field, in a subject the nearest to the leaf first.
 * @param field as `clientCertificateIdentityField`
 */
export function certificateValues(names: CertificateNames, field: string): readonly string[] {
  const type = field.toUpperCase().replace(/^OID\./, '');
  return candidateValues(names, type).filter((text) => text.trim() !== '');
}

function candidateValues({ subject, dns, emails, uris }: CertificateNames, type: string): readonly string[] {
  switch (type) {
    case SUBJECT_DN:
      return [nameText(subject)];
    case 'SAN_DNS':
      return dns;
    case 'SAN_EMAIL':
      return emails;
    case 'SAN_URI':
      return uris;
    default: {
      const attributes = subject.toReversed().flat();
      return attributes.flatMap(({ type: own, value }) => (own === type && value !== null ? [value] : []));
    }
  }
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
