import { readFile } from 'node:fs/promises';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { type FileWatch, followFiles } from '../../config/followedFiles.ts';
import type { GatewayConfig } from '../../config/gatewayConfig.ts';
import { type CertificateNames, nameText } from '../../model/certificateNames.ts';
import { GatewayError } from '../../model/errors.ts';
import { growingTo } from '../../model/growingCache.ts';
import type { ProductNames } from '../../model/names.ts';
import { isRecord } from '../../model/record.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import { Evaluation, EvaluationError } from '../../rules/evaluation.ts';
import { CompileError } from '../../rules/language/source.ts';
import { defaultRuleLimits } from '../../rules/limits.ts';
import { JavaPattern } from '../../rules/regex/javaPattern.ts';
import { compileTextExpression, type TextValues } from '../../rules/textExpression.ts';
import { EvidentUser, type UserEvidence, userName } from './userExtractor.ts';

/** The user of a name or a certificate, or the reason of a rejection: a clause for users. */
export type MappedUser = { readonly user: string } | { readonly rejection: string };

export interface MappingRule {
  readonly pattern: JavaPattern;
  /** Replacement with groups such as `$1`. */
  readonly user: string;
  readonly allow: boolean;
  readonly case: 'keep' | 'lower' | 'upper';
}

const [MAX_RULES, MAX_FILE_LENGTH] = [1000, 1_048_576];
/** More than matching a few short patterns takes. */
const LIMITS = { ...defaultRuleLimits, memory: 1_048_576, stringLength: 65_536, time: 10 };

/**
 * The rules of a mapping: of a file, else a pattern.
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
 */
async function openMappingRules(
  patternKey: string,
  pattern: string | null,
  fileKey: string,
  path: string | null,
): Promise<readonly MappingRule[]> {
  if (path !== null) return readRules(path, (why) => impossible(fileKey, `${path}: ${why}`));
  // Empty text is none, as in Trino Gateway.
  return [ruleOf({ pattern: pattern || '(.*)' }, (why) => impossible(patternKey, why))];
}

/**
 * Opens a mapping and follows its file, if any.
 * @param file null for none
 * @throws as `open` if the mapping cannot be used at the start
 */
async function followMapping<T>(
  file: string | null,
  open: () => Promise<T>,
  refreshTime: number,
  logger: Logger,
): Promise<FileWatch<T>> {
  if (file === null) return { current: await open(), stop: () => undefined };
  const text = () => readFile(file, 'utf8').catch(() => null);
  const report = (reason: string | null) => {
    if (reason === null) logger.info({ file }, 'user mapping file reloaded');
    else logger.error({ file, reason }, 'changed user mapping file rejected; last valid rules stay active');
  };
  return await followFiles(text, open, report, refreshTime);
}

/** The user of a name: the first rule that matches all of it decides. */
function mappedUser(rules: readonly MappingRule[], identity: string): MappedUser {
  const evaluation = new Evaluation({} as Evaluation['objects'], LIMITS);
  try {
    for (const rule of rules) {
      if (!rule.pattern.matches(identity, evaluation)) continue;
      if (!rule.allow) return { rejection: 'it is not allowed' };
      const user = rule.pattern.replace(identity, rule.user, true, evaluation).trim();
      if (user === '') return { rejection: 'the rule that matches it gives an empty user' };
      return checkedUser(rule.case === 'keep' ? user : rule.case === 'lower' ? user.toLowerCase() : user.toUpperCase());
    }
  } catch (error) {
    if (error instanceof EvaluationError) return { rejection: `it cannot be mapped: ${error.message}` };
    throw error;
  }
  return { rejection: 'no rule for users matches it' };
}

/** Checks a mapped user. Names go into headers and tokens: values with a special meaning there are invalid. */
function checkedUser(user: string): MappedUser {
  const name = userName(user);
  return name === null ? { rejection: 'its name is empty, too long or has control characters' } : { user: name };
}

/** Rules of a file in Trino's form: `{"rules": [{"pattern": …, "user": …, "allow": …, "case": …}]}`. */
async function readRules(path: string, fail: (why: string) => GatewayError): Promise<readonly MappingRule[]> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw fail(`cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  if (text.length > MAX_FILE_LENGTH) throw fail(`is longer than ${MAX_FILE_LENGTH} characters`);
  const form = 'must be JSON such as {"rules": [{"pattern": "(.*)@example\\\\.com"}]}';
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch (error) {
    throw fail(`${form} (${error instanceof Error ? error.message : String(error)})`);
  }
  const rules = isRecord(file) ? file.rules : undefined;
  if (!Array.isArray(rules) || rules.length === 0) throw fail(form);
  if (rules.length > MAX_RULES) throw fail(`has more than ${MAX_RULES} rules`);
  return rules.map((rule, index) => ruleOf(rule, (why) => fail(`rules[${index}]: ${why}`)));
}

const ruleKeys = ['pattern', 'user', 'allow', 'case'];

function ruleOf(rule: unknown, fail: (why: string) => GatewayError): MappingRule {
  if (!isRecord(rule)) throw fail('must be an object with a pattern');
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
    // Mistakes of the replacement that do not depend on the input.
    if (allow !== false) compiled.replace('', user, true, new Evaluation({} as Evaluation['objects'], LIMITS));
    return { pattern: compiled, user, allow: allow !== false, case: letterCase };
  } catch (error) {
    if (error instanceof CompileError) throw fail(`the pattern cannot be used: ${error.message}`);
    if (error instanceof EvaluationError)
      throw fail(`the pattern cannot be used with user "${user}": ${error.message}`);
    throw error;
  }
}

function impossible(field: string, why: string): GatewayError {
  return new GatewayError('EG_IMPOSSIBLE', `${field}: ${why}.`, { field });
}

/** Settings `userMapping` (docs/identity.md#user-mapping). */
export type NameMappingSettings = NonNullable<GatewayConfig['userMapping']>;

/** Sources of names that can be mapped; `login`: of API callers. */
export const mappedSources = ['header', 'basic', 'bearer', 'cookie', 'certificate', 'login'] as const;

const MAX_NAMES = 10_000;
const MAX_SHOWN_LENGTH = 200;

export class MappedUsers {
  readonly #rules: FileWatch<readonly MappingRule[]>;
  readonly #sources: ReadonlySet<string>;
  /** True if clusters receive the mapped names of verified users. */
  readonly rewritesHeader: boolean;
  readonly #users = new LRUCache<string, { readonly user: string }>(growingTo(MAX_NAMES));
  #remembered: readonly MappingRule[];

  constructor(
    rules: FileWatch<readonly MappingRule[]>,
    { sources, rewriteUserHeader }: Pick<NameMappingSettings, 'sources' | 'rewriteUserHeader'>,
  ) {
    this.#rules = rules;
    this.#remembered = rules.current;
    this.#sources = new Set(sources);
    this.rewritesHeader = rewriteUserHeader;
  }

  /**
   * Creates the configured mapping, and follows its file.
   * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
   */
  static async open(settings: NameMappingSettings, logger: Logger): Promise<MappedUsers> {
    const { file, refreshPeriod } = settings;
    return new MappedUsers(await followMapping(file, () => openNameRules(settings), refreshPeriod, logger), settings);
  }

  stop(): void {
    this.#rules.stop();
  }

  /** The user of a request with the mapped name, or the rejection; unchanged if its source is not mapped. */
  of(user: RequestUser): RequestUser {
    const { user: from } = user;
    if (from === null) return user;
    const evidence = EvidentUser.evidenceOf(user);
    if (!this.#sources.has(sourceOf(evidence))) return user;
    return this.#asMapped(user, from, evidence);
  }

  /** The user of a name as clients send it, from any source. */
  ofName(name: string): RequestUser {
    const user = { user: name, userInfo: null };
    return this.#asMapped(user, name, EvidentUser.evidenceOf(user));
  }

  #asMapped(user: RequestUser, from: string, evidence: UserEvidence): RequestUser {
    const mapped = this.#mapped(from);
    if ('rejection' in mapped) return { user: null, userInfo: null, rejection: rejectionText(from, mapped.rejection) };
    const mapping = { from, isForwarded: this.rewritesHeader && evidence.isVerified };
    return user instanceof EvidentUser
      ? new EvidentUser(mapped.user, evidence, mapping)
      : { ...user, user: mapped.user, mapping };
  }

  ofCertificate(user: string): string {
    if (!this.rewritesHeader || !this.#sources.has('certificate')) return user;
    const mapped = this.#mapped(user);
    return 'rejection' in mapped ? user : mapped.user;
  }

  /** The name of an API caller's queries; null if no rule accepts the name. */
  ofLogin(name: string): string | null {
    if (!this.#sources.has('login')) return name;
    const mapped = this.#mapped(name);
    return 'rejection' in mapped ? null : mapped.user;
  }

  #mapped(name: string): MappedUser {
    const { current } = this.#rules;
    if (this.#remembered !== current) {
      this.#users.clear();
      this.#remembered = current;
    }
    const remembered = this.#users.get(name);
    if (remembered !== undefined) return remembered;
    const mapped = mappedUser(current, name);
    // A rejection may be due to a timeout: not cached.
    if ('user' in mapped) this.#users.set(name, mapped);
    return mapped;
  }
}

/**
 * The rules of `userMapping`; reads their file.
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
 */
export async function openNameRules({
  pattern,
  file,
}: Pick<NameMappingSettings, 'pattern' | 'file'>): Promise<readonly MappingRule[]> {
  return await openMappingRules('userMapping.pattern', pattern, 'userMapping.file', file);
}

/** Responses about bearer tokens count as bearer tokens. */
function sourceOf({ source }: UserEvidence): string {
  return source === 'exchange' || source === 'tokenReview' ? 'bearer' : source;
}

function rejectionText(name: string, why: string): string {
  const shown = name.length > MAX_SHOWN_LENGTH ? `${name.slice(0, MAX_SHOWN_LENGTH)}…` : name;
  return `The user ${JSON.stringify(shown)} is refused by the user mapping of the gateway: ${why}.`;
}

/** Settings of the mapping from certificates to users (docs/client-certificates.md). */
export type UserMappingSettings = Pick<
  GatewayConfig['requestAnalyzerConfig'],
  Extract<keyof GatewayConfig['requestAnalyzerConfig'], `clientCertificate${string}`>
>;

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
  const { clientCertificateUserMappingPattern: pattern, clientCertificateUserMappingFile: file } = settings;
  const prefix = `${SECTION}.clientCertificateUserMapping`;
  const rules = await openMappingRules(`${prefix}Pattern`, pattern, `${prefix}File`, file);
  if (field.toUpperCase() !== SUBJECT_DN && rules.some(({ allow }) => !allow)) {
    throw impossible(
      `${SECTION}.clientCertificateIdentityField`,
      `must be ${SUBJECT_DN}, as ${SECTION}.clientCertificateUserMappingFile has rules with "allow": false: these are written for the whole subject, and would let pass here what they deny there`,
    );
  }
  return (certificate) => {
    const [identity] = certificateValues(certificate, field);
    if (identity === undefined) return { rejection: `it has no ${field}, which users are taken from` };
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
): Promise<FileWatch<UserMapping> | null> {
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
    throw impossible(
      `${SECTION}.${key}`,
      `${expression.problem}; the certificate is "certificate" (docs/client-certificates.md)`,
    );
  }
  return (certificate) => {
    const result = expression.run(valuesOf(certificate));
    if ('failure' in result) return { rejection: `${SECTION}.${key} fails for it: ${result.failure}` };
    return result.text === null ? { rejection: `${SECTION}.${key} gives no user for it` } : checkedUser(result.text);
  };
}

function valuesOf({ subject, issuer, dns, emails, uris }: CertificateNames): TextValues {
  // Root first, so that the value nearest to the leaf stays.
  const attributes = subject.flat().flatMap(({ type, value }) => (value === null ? [] : [[type, value] as const]));
  return { ...Object.fromEntries(attributes), subject: nameText(subject), issuer: nameText(issuer), dns, emails, uris };
}
