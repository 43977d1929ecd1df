import { readFile } from 'node:fs/promises';
import type { Logger } from 'pino';
import { type Followed, followFiles } from '../../config/followedFiles.ts';
import { GatewayError } from '../../model/errors.ts';
import { Evaluation, EvaluationError } from '../../rules/evaluation.ts';
import { CompileError } from '../../rules/language/source.ts';
import { defaultRuleLimits } from '../../rules/limits.ts';
import { JavaPattern } from '../../rules/regex/javaPattern.ts';
import { userName } from './userName.ts';

/** The user of a name or a certificate, or the reason of a rejection: a clause for users. */
export type MappedUser = { readonly user: string } | { readonly refusal: string };

export interface MappingRule {
  readonly pattern: JavaPattern;
  /** Replacement with groups such as `$1`. */
  readonly user: string;
  readonly allow: boolean;
  readonly case: 'keep' | 'lower' | 'upper';
}

/** A value of the configuration; its key is for messages. */
interface KeyedValue {
  readonly key: string;
  readonly value: string | null;
}

const [MAX_RULES, MAX_FILE_LENGTH] = [1000, 1_048_576];
/** More than matching a few short patterns takes. */
const LIMITS = { ...defaultRuleLimits, memory: 1_048_576, stringLength: 65_536, time: 10 };

/**
 * The rules of a mapping: of a file, else a pattern.
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
 */
export async function openMappingRules(pattern: KeyedValue, file: KeyedValue): Promise<readonly MappingRule[]> {
  const { value: path } = file;
  if (path !== null) return readRules(path, (why) => impossible(file.key, `${path}: ${why}`));
  const { key, value } = pattern;
  // Empty text is none, as in Trino Gateway.
  return [ruleOf({ pattern: value === null || value === '' ? '(.*)' : value }, (why) => impossible(key, why))];
}

/**
 * Opens a mapping and follows its file, if any.
 * @param file null for none
 * @throws as `open` if the mapping cannot be used at the start
 */
export async function followMapping<T>(
  file: string | null,
  open: () => Promise<T>,
  refreshTime: number,
  logger: Logger,
): Promise<Followed<T>> {
  if (file === null) return { current: await open(), stop: () => undefined };
  const text = () => readFile(file, 'utf8').catch(() => null);
  const report = (reason: string | null) => {
    if (reason === null) logger.info({ file }, 'user mapping file reloaded');
    else logger.error({ file, reason }, 'changed user mapping file rejected; last valid rules stay active');
  };
  return await followFiles(text, open, report, refreshTime);
}

/** The user of a name: the first rule that matches all of it decides. */
export function mappedUser(rules: readonly MappingRule[], identity: string): MappedUser {
  const evaluation = new Evaluation({} as Evaluation['objects'], LIMITS);
  try {
    for (const rule of rules) {
      if (!rule.pattern.matches(identity, evaluation)) continue;
      if (!rule.allow) return { refusal: 'it is not allowed' };
      const user = rule.pattern.replace(identity, rule.user, true, evaluation).trim();
      if (user === '') return { refusal: 'the rule that matches it gives an empty user' };
      return checkedUser(rule.case === 'keep' ? user : rule.case === 'lower' ? user.toLowerCase() : user.toUpperCase());
    }
  } catch (error) {
    if (error instanceof EvaluationError) return { refusal: `it cannot be mapped: ${error.message}` };
    throw error;
  }
  return { refusal: 'no rule for users matches it' };
}

/** Checks a mapped user. Names go into headers and tokens: values with a special meaning there are invalid. */
export function checkedUser(user: string): MappedUser {
  const name = userName(user);
  return name === null ? { refusal: 'its name is empty, too long or has control characters' } : { user: name };
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
  const rules = isObject(file) ? file.rules : undefined;
  if (!Array.isArray(rules) || rules.length === 0) throw fail(form);
  if (rules.length > MAX_RULES) throw fail(`has more than ${MAX_RULES} rules`);
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

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function impossible(field: string, why: string): GatewayError {
  return new GatewayError('EG_IMPOSSIBLE', `${field}: ${why}.`, { field });
}
