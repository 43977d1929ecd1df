import { readFile } from 'node:fs/promises';
import { type CertificateNames, nameText } from '../../model/certificateNames.ts';
import { GatewayError } from '../../model/errors.ts';
import type { ProductNames } from '../../model/names.ts';
import { Evaluation, EvaluationError } from '../../rules/evaluation.ts';
import { CompileError } from '../../rules/language/source.ts';
import { defaultRuleLimits } from '../../rules/limits.ts';
import { JavaPattern } from '../../rules/regex/javaPattern.ts';
import { compileTextExpression, type TextValues } from '../../rules/textExpression.ts';
import { userName } from './userName.ts';

/** How certificates become users (`requestAnalyzerConfig.clientCertificate…`, docs/client-certificates.md). */
export interface UserMappingSettings {
  readonly clientCertificateIdentityField: string | null;
  readonly clientCertificateUserMappingPattern: string | null;
  readonly clientCertificateUserMappingFile: string | null;
  readonly clientCertificateUserExpression: string | null;
}

/** The user of a certificate, or why it has none. */
export type MappedUser = { readonly user: string } | { readonly refusal: string };

/** Makes users of certificates. */
export type UserMapping = (names: CertificateNames) => MappedUser;

const SECTION = 'requestAnalyzerConfig';
/** The whole subject as text, as engines map it. */
const SUBJECT_DN = 'SUBJECT_DN';
/** Rules that a file may hold, and its size in characters. */
const [MOST_RULES, LONGEST_FILE] = [1000, 1_048_576];
/** More than matching a few short patterns takes. */
const LIMITS = { ...defaultRuleLimits, memory: 1_048_576, stringLength: 65_536, time: 10 };

/** A rule of a mapping, as engines have them (user mapping of Trino). */
interface MappingRule {
  readonly pattern: JavaPattern;
  /** Replacement with groups such as `$1`. */
  readonly user: string;
  readonly allow: boolean;
  readonly case: 'keep' | 'lower' | 'upper';
}

/**
 * Makes the mapping of the configuration; null where users are not taken from certificates. Reads the file of rules.
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
 */
export async function openUserMapping(settings: UserMappingSettings, names: ProductNames): Promise<UserMapping | null> {
  const { clientCertificateIdentityField: field, clientCertificateUserExpression: expression } = settings;
  if (expression !== null) return byExpression(expression, names);
  if (field === null) return null;
  const rules = await rulesOf(settings);
  if (field.toUpperCase() !== SUBJECT_DN && rules.some(({ allow }) => !allow)) {
    throw impossible(
      'clientCertificateIdentityField',
      `must be ${SUBJECT_DN}, as ${SECTION}.clientCertificateUserMappingFile has rules with "allow": false: these are written for the whole subject, and would let pass here what they deny there`,
    );
  }
  return (certificate) => {
    const identity = identityOf(certificate, field);
    if (identity === null) return { refusal: `it has no ${field}, which users are taken from` };
    return mapped(rules, identity);
  };
}

/** What a certificate says under a name; of several the first, in a subject the one nearest to the leaf. Null for nothing. */
function identityOf(names: CertificateNames, field: string): string | null {
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
  return candidates.find((text) => text.trim() !== '') ?? null;
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
    return result.text === null ? { refusal: `${SECTION}.${key} gives no user for it` } : checked(result.text);
  };
}

/** What expressions see of a certificate. */
function valuesOf({ subject, issuer, dns, emails, uris }: CertificateNames): TextValues {
  // Root first, so that what is nearest to the leaf stays.
  const attributes = subject.flat().flatMap(({ type, value }) => (value === null ? [] : [[type, value] as const]));
  return { ...Object.fromEntries(attributes), subject: nameText(subject), issuer: nameText(issuer), dns, emails, uris };
}

/** The first rule that matches the whole text decides. */
function mapped(rules: readonly MappingRule[], identity: string): MappedUser {
  const evaluation = new Evaluation({} as Evaluation['objects'], LIMITS);
  try {
    for (const rule of rules) {
      if (!rule.pattern.matches(identity, evaluation)) continue;
      if (!rule.allow) return { refusal: 'it is not allowed' };
      const user = rule.pattern.replace(identity, rule.user, true, evaluation).trim();
      if (user === '') return { refusal: 'the rule that matches it gives an empty user' };
      return checked(rule.case === 'keep' ? user : rule.case === 'lower' ? user.toLowerCase() : user.toUpperCase());
    }
  } catch (error) {
    if (error instanceof EvaluationError) return { refusal: `it cannot be mapped: ${error.message}` };
    throw error;
  }
  return { refusal: 'no rule for users matches it' };
}

/** Names go into headers and tokens: what could mean something else there is no name. */
function checked(user: string): MappedUser {
  const name = userName(user);
  return name === null ? { refusal: 'its name is empty, too long or has control characters' } : { user: name };
}

async function rulesOf(settings: UserMappingSettings): Promise<readonly MappingRule[]> {
  const { clientCertificateUserMappingPattern: pattern, clientCertificateUserMappingFile: path } = settings;
  if (path !== null) return readRules(path);
  const key = 'clientCertificateUserMappingPattern';
  // Empty text is none, as in the reference.
  return [ruleOf({ pattern: pattern === null || pattern === '' ? '(.*)' : pattern }, (why) => impossible(key, why))];
}

/** Rules of a file in the form of Trino's: `{"rules": [{"pattern": …, "user": …, "allow": …, "case": …}]}`. */
async function readRules(path: string): Promise<readonly MappingRule[]> {
  const fail = (why: string) => impossible('clientCertificateUserMappingFile', `${path}: ${why}`);
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw fail(`cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  if (text.length > LONGEST_FILE) throw fail(`is longer than ${LONGEST_FILE} characters`);
  const form = 'must be JSON such as {"rules": [{"pattern": "(.*)@example\\\\.com"}]}';
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch (error) {
    throw fail(`${form} (${error instanceof Error ? error.message : String(error)})`);
  }
  const rules = isObject(file) ? file.rules : undefined;
  if (!Array.isArray(rules) || rules.length === 0) throw fail(form);
  if (rules.length > MOST_RULES) throw fail(`has more than ${MOST_RULES} rules`);
  return rules.map((rule, index) => ruleOf(rule, (why) => fail(`rules[${index}]: ${why}`)));
}

const ruleKeys = ['pattern', 'user', 'allow', 'case'];

function ruleOf(rule: unknown, fail: (why: string) => GatewayError): MappingRule {
  if (!isObject(rule)) throw fail('must be an object with a pattern');
  const unknown = Object.keys(rule).find((key) => !ruleKeys.includes(key));
  if (unknown !== undefined) throw fail(`"${unknown}" is not known; there are ${ruleKeys.join(', ')}`);
  const { pattern, user: replacement, allow, case: letters } = rule;
  if (typeof pattern !== 'string') throw fail('pattern must be a regular expression');
  const user = replacement ?? '$1';
  if (typeof user !== 'string') throw fail('user must be a text such as "$1"');
  if (typeof (allow ?? true) !== 'boolean') throw fail('allow must be true or false');
  const letterCase = typeof letters === 'string' ? letters.toLowerCase() : (letters ?? 'keep');
  if (letterCase !== 'keep' && letterCase !== 'lower' && letterCase !== 'upper') {
    throw fail('case must be keep, lower or upper');
  }
  try {
    const compiled = new JavaPattern(pattern);
    // Mistakes of the replacement that do not depend on what is matched.
    if (allow !== false) compiled.replace('', user, true, new Evaluation({} as Evaluation['objects'], LIMITS));
    return { pattern: compiled, user, allow: allow !== false, case: letterCase };
  } catch (error) {
    if (error instanceof CompileError) throw fail(`the pattern cannot be used: ${error.message}`);
    if (error instanceof EvaluationError)
      throw fail(`the pattern cannot be used with user "${user}": ${error.message}`);
    throw error;
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function impossible(key: string, why: string): GatewayError {
  const field = `${SECTION}.${key}`;
  return new GatewayError('EG_IMPOSSIBLE', `${field}: ${why}.`, { field });
}
