import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { loadConfig } from '../config/loadConfig.ts';
import { type ConfigNote, problemLine } from '../config/problem.ts';
import type { CliIo } from './io.ts';

/** A configuration that was read, with its notes as lines for people. */
export interface LoadedConfig {
  readonly config: GatewayConfig;
  readonly notes: readonly (ConfigNote & { readonly text: string })[];
}

/**
 * Reads the configuration of a command; tells every mistake on standard error.
 * @param path the file; undefined for the defaults
 * @returns null when it cannot be used
 */
export async function readConfigFile(path: string | undefined, io: CliIo): Promise<LoadedConfig | null> {
  const result = await loadConfig(path, io.environment);
  const file = path ?? 'configuration';
  if ('config' in result) {
    return { config: result.config, notes: result.notes.map((note) => ({ ...note, text: problemLine(file, note) })) };
  }
  const { problems } = result;
  for (const problem of problems) io.stderr.write(`${problemLine(file, problem)}\n`);
  io.stderr.write(`${file} has ${problems.length === 1 ? '1 mistake' : `${problems.length} mistakes`}\n`);
  return null;
}
