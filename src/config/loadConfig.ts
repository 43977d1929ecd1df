import { readFile } from 'node:fs/promises';
import { type CrossProblem, crossChecks } from './consistency.ts';
import { derive } from './derived.ts';
import { type Environment, whyUnreadable } from './environment.ts';
import { configFields, type GatewayConfig } from './gatewayConfig.ts';
import { readBySchema } from './reader.ts';
import { type ConfigNote, type ConfigProblem, NOT_YAML, overlay, readSource, type Source } from './source.ts';

/** A valid configuration with notes about its keys; or every mistake in the file. */
export type LoadResult =
  | {
      readonly config: GatewayConfig;
      readonly notes: readonly ConfigNote[];
      /** True if the file gives `protocol.productName`. */
      readonly isProductNamed: boolean;
    }
  | { readonly problems: readonly ConfigProblem[] };

interface ConfigText {
  readonly path: string;
  readonly text: string;
}

/**
 * Reads configuration files (docs/configuration.md#several-files).
 * @param paths YAML files, each laid over those before it; none for the defaults alone
 * @param environment variables for `${ENV:NAME}`
 * @param productName as for `parseConfig`
 */
export async function loadConfig(
  paths: readonly string[],
  environment: Environment,
  productName?: string,
): Promise<LoadResult> {
  const texts: ConfigText[] = [];
  for (const path of paths) {
    const read = await readText(path);
    if ('problem' in read) return { problems: [{ ...read.problem, file: path }] };
    texts.push({ path, text: read.text });
  }
  return parseConfigTexts(texts, environment, productName);
}

/** Reads the texts of configuration files as `loadConfig` does; each mistake names its file and the line in it. */
export function parseConfigTexts(
  texts: readonly ConfigText[],
  environment: Environment,
  productName?: string,
): LoadResult {
  const [only] = texts;
  if (only === undefined || texts.length === 1) return parseConfig(only?.text ?? '', environment, productName);
  let source: Source = { root: { kind: 'null', line: 1 }, problems: [] };
  const firstLines: number[] = [];
  let firstLine = 1;
  for (const { text } of texts) {
    const { root, problems } = readSource(text, environment, firstLine);
    source = { root: overlay(source.root, root), problems: [...source.problems, ...problems] };
    firstLines.push(firstLine);
    firstLine += text.split('\n').length;
  }
  const placed = <T extends ConfigNote>(item: T): T => {
    const { line } = item;
    if (line === null) return item;
    const file = firstLines.findLastIndex((first) => first <= line);
    return { ...item, file: texts[file]?.path, line: line - (firstLines[file] ?? 1) + 1 };
  };
  const result = configOf(source, productName);
  if ('problems' in result) return { problems: result.problems.map(placed) };
  return { ...result, notes: result.notes.map(placed) };
}

/**
 * Reads the text of a configuration file. All mistakes are reported together, in the order of the file.
 * @param productName product name of names derived from it, where it is not the file's own: a running gateway keeps
 * its name until it is restarted. It is the product name where the file gives none
 */
export function parseConfig(text: string, environment: Environment, productName?: string): LoadResult {
  return configOf(readSource(text, environment), productName);
}

function configOf(source: Source, productName: string | undefined): LoadResult {
  // Text that is not YAML has no keys: missing keys are not the mistake to report.
  const malformed = source.problems.filter((problem) => problem.message.startsWith(NOT_YAML));
  if (malformed.length > 0) return { problems: inOrder(malformed) };
  const reading = readBySchema(configFields, source.root);
  const lineOf = (field: string): number | null => reading.keyLines.get(field.replace(/\[\d+\]$/, '')) ?? null;
  const isProductNamed = lineOf('protocol.productName') !== null;
  const value = reading.value as GatewayConfig;
  const named =
    isProductNamed || productName === undefined ? value : { ...value, protocol: { ...value.protocol, productName } };
  const derived = derive(named, lineOf, productName);
  const direct = [...source.problems, ...reading.problems];
  const problems = [...direct, ...placedChecks(crossChecks(derived.config), direct, lineOf)];
  if (problems.length > 0) return { problems: inOrder(problems) };
  return { config: deepFreeze(derived.config), notes: inOrder([...reading.notes, ...derived.notes]), isProductNamed };
}

/**
 * Problems between keys, without those that follow from a problem of one of their keys. Their line is that of the key, of the
 * one that causes the problem, or of the nearest section that the file gives.
 */
function placedChecks(
  checks: readonly CrossProblem[],
  direct: readonly ConfigProblem[],
  lineOf: (field: string) => number | null,
): readonly ConfigProblem[] {
  return checks.flatMap(({ cause, ...problem }) => {
    const names = problem.field.split('.');
    const sections = names.map((_, index) => names.slice(0, names.length - index).join('.'));
    const keys = cause === undefined ? [problem.field] : [problem.field, cause];
    const isTold = direct.some(
      ({ field }) => sections.includes(field) || keys.some((key) => field === key || field.startsWith(`${key}.`)),
    );
    if (isTold) return [];
    const lines = [...keys, ...sections].map(lineOf);
    return [{ ...problem, line: lines.find((line) => line !== null) ?? null }];
  });
}

/** Reads a file's text; a failure is returned as a problem. */
export async function readText(path: string): Promise<{ readonly text: string } | { readonly problem: ConfigProblem }> {
  try {
    return { text: await readFile(path, 'utf8') };
  } catch (error) {
    return { problem: { field: '', line: null, message: whyUnreadable(error) } };
  }
}

function inOrder<T extends ConfigNote>(items: readonly T[]): readonly T[] {
  return items.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0));
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}
