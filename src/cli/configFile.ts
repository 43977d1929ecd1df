import { readFile } from 'node:fs/promises';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { loadConfig } from '../config/loadConfig.ts';
import { createLogger } from '../config/logger.ts';
import { type ConfigNote, problemLine } from '../config/source.ts';
import { REFERENCE_PRODUCT } from '../model/names.ts';
import { hasReferenceMigrations } from '../store/openStore.ts';
import { type CliIo, exitCodes, fail } from './io.ts';
import { filesAt } from './offlineRules.ts';
import { databaseSettings } from './settings.ts';

/** A loaded configuration, with its notes as lines of text. */
interface LoadedConfig {
  readonly config: GatewayConfig;
  readonly notes: readonly (ConfigNote & { readonly text: string })[];
}

/**
 * Reads the configuration of a command; ends the command with every mistake. Infers a missing product name and adds a
 * note.
 * @param paths the files, each laid over those before it; undefined for the defaults
 */
export async function readConfigFiles(paths: readonly string[] = [], io: CliIo): Promise<LoadedConfig> {
  const file = configName(paths);
  let result = await loadConfig(paths, io.environment);
  const inferred: ConfigNote[] = [];
  if ('config' in result && !result.isProductNamed && paths.length > 0) {
    const { productName, message } = await inferProductName(result.config);
    if (message !== null) inferred.push({ field: 'protocol.productName', line: null, message });
    if (productName !== null) result = await loadConfig(paths, io.environment, productName);
  }
  if ('config' in result) {
    const notes = [...inferred, ...result.notes];
    return { config: result.config, notes: notes.map((note) => ({ ...note, text: problemLine(file, note) })) };
  }
  const lines = result.problems.map((problem) => problemLine(file, problem));
  fail(io, [...lines, `${file} has ${lines.length === 1 ? '1 mistake' : `${lines.length} mistakes`}`]);
}

export function configName(paths: readonly string[] = []): string {
  return paths.length === 0 ? 'configuration' : paths.join(', ');
}

interface InferredProduct {
  /** Null: no evidence against the default. */
  readonly productName: string | null;
  /** Reason or failure as text, or null. */
  readonly message: string | null;
}

/** As `protocol.productName`. */
const DEFAULT_PRODUCT = 'Engine';

const NAME_IT = 'write "protocol: {productName: Trino}" (or Engine) into the configuration';

/**
 * Infers the product name of a configuration without `protocol.productName`, by names in its rules file, else by the
 * history of migrations in its database (docs/migration.md#product-name).
 */
async function inferProductName(config: GatewayConfig): Promise<InferredProduct> {
  const { rulesConfigPath } = config.routingRules;
  const rules = rulesConfigPath === null ? '' : await readFile(rulesConfigPath, 'utf8').catch(() => '');
  const named = productNamedIn(rules);
  if (named === 'Engine') return { productName: null, message: null };
  if (named !== null) {
    const message = `is taken as ${named}, as ${rulesConfigPath} names objects or headers of ${named}; ${NAME_IT}`;
    return { productName: named, message };
  }
  const logger = createLogger({ level: 'fatal', destination: { write: () => undefined } });
  const isReference = await hasReferenceMigrations(databaseSettings(config), logger);
  if (isReference === null) {
    const message = `is taken as Engine, as the database could not be asked whether it is one of Trino Gateway; ${NAME_IT}`;
    return { productName: null, message };
  }
  if (!isReference) return { productName: null, message: null };
  const message = `is taken as ${REFERENCE_PRODUCT}, as the database holds the migrations of Trino Gateway; ${NAME_IT}`;
  return { productName: REFERENCE_PRODUCT, message };
}

/** Reads files, and those of directories of manifests, as far as they can be read. */
export async function textsAt(paths: readonly string[]): Promise<readonly string[]> {
  const texts: string[] = [];
  for (const path of paths) {
    const files = await filesAt(path).catch(() => []);
    for (const file of files) texts.push(await readFile(file, 'utf8').catch(() => ''));
  }
  return texts;
}

/**
 * The product names in texts of rules and manifests, as the start infers them from its rules file: Engine for none or
 * several. Reports a name other than the default.
 */
export function productOfRules(texts: readonly string[], io: CliIo): string {
  const named = productNamedIn(texts.join('\n')) ?? DEFAULT_PRODUCT;
  if (named !== DEFAULT_PRODUCT)
    io.stderr.write(`note: the rules name objects or headers of ${named}, so --product is taken as ${named}\n`);
  return named;
}

/** Parses the option `--default-priority` (`routingRules.defaultPriority`); undefined if it is missing. */
export function priorityOption(text: string | undefined, io: CliIo): number | undefined {
  if (text === undefined) return undefined;
  const number = /^-?[0-9]{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= -2_147_483_648 && number <= 2_147_483_647) return number;
  const mistake = 'error: --default-priority must be a whole number from -2147483648 to 2147483647';
  return fail(io, mistake, exitCodes.usage);
}

const TRINO_NAMES = /\btrino(?:QueryProperties|RequestUser|Status)\b|\bX-Trino-/i;
const ENGINE_NAMES = /\bengine(?:QueryProperties|RequestUser)\b|\bX-Engine-/i;

/**
 * Which product the names in a text of rules are of: `Trino` or `Engine` by objects and headers. Null if it holds
 * neither, or both.
 */
export function productNamedIn(text: string): 'Trino' | 'Engine' | null {
  const isTrino = TRINO_NAMES.test(text);
  if (isTrino === ENGINE_NAMES.test(text)) return null;
  return isTrino ? REFERENCE_PRODUCT : 'Engine';
}
