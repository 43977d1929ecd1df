import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { loadConfig } from '../config/loadConfig.ts';
import { type ConfigNote, problemLine } from '../config/problem.ts';
import { type CliIo, fail } from './io.ts';
import { inferProductName } from './productName.ts';

/** A loaded configuration, with its notes as lines of text. */
export interface LoadedConfig {
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
