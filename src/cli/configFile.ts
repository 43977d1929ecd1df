import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { loadConfig } from '../config/loadConfig.ts';
import { type ConfigNote, problemLine } from '../config/problem.ts';
import type { CliIo } from './io.ts';
import { inferProductName } from './productName.ts';

/** A configuration that was read, with its notes as lines for people. */
export interface LoadedConfig {
  readonly config: GatewayConfig;
  readonly notes: readonly (ConfigNote & { readonly text: string })[];
}

/**
 * Reads the configuration of a command; prints every mistake to standard error. A product name that is missing in the file is
 * inferred, and a note says so.
 * @param path the file; undefined for the defaults
 * @returns null when it cannot be used
 */
export async function readConfigFile(path: string | undefined, io: CliIo): Promise<LoadedConfig | null> {
  const file = path ?? 'configuration';
  let result = await loadConfig(path, io.environment);
  const inferred: ConfigNote[] = [];
  if ('config' in result && !result.isProductNamed && path !== undefined) {
    const { productName, message } = await inferProductName(result.config);
    if (message !== null) inferred.push({ field: 'protocol.productName', line: null, message });
    if (productName !== null) result = await loadConfig(path, io.environment, productName);
  }
  if ('config' in result) {
    const notes = [...inferred, ...result.notes];
    return { config: result.config, notes: notes.map((note) => ({ ...note, text: problemLine(file, note) })) };
  }
  const { problems } = result;
  for (const problem of problems) io.stderr.write(`${problemLine(file, problem)}\n`);
  io.stderr.write(`${file} has ${problems.length === 1 ? '1 mistake' : `${problems.length} mistakes`}\n`);
  return null;
}
