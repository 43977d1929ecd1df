import { isDeepStrictEqual } from 'node:util';
import type { FieldSchema } from './fields.ts';
import { configFields, type GatewayConfig } from './gatewayConfig.ts';

/** What a changed file means for the running gateway. */
export interface ConfigChange {
  /** The running configuration with the live keys of the new file; the other keys stay as they were at start. */
  readonly config: GatewayConfig;
  /** Live keys that differ from the running configuration, by path. */
  readonly live: readonly string[];
  /** Keys that differ but are read at start only: they need a restart. Keys without effect are left out. */
  readonly restart: readonly string[];
}

/** Compares the running configuration with that of a changed file. */
export function compareConfigs(running: GatewayConfig, next: GatewayConfig): ConfigChange {
  const live: string[] = [];
  const restart: string[] = [];
  const config = merge(configFields, running, next, '', { live, restart }) as GatewayConfig;
  return { config: live.length === 0 ? running : config, live, restart };
}

interface Paths {
  readonly live: string[];
  readonly restart: string[];
}

function merge(schema: FieldSchema, before: unknown, after: unknown, path: string, paths: Paths): unknown {
  if (schema.withoutEffect !== undefined || sameValue(before, after)) return before;
  if (schema.live === true) {
    paths.live.push(path);
    return after;
  }
  if (schema.kind !== 'section' || before === null || after === null) {
    paths.restart.push(path);
    return before;
  }
  const merged: Record<string, unknown> = {};
  for (const [name, child] of Object.entries(schema.properties ?? {})) {
    const values = [before, after].map((value) => (value as Readonly<Record<string, unknown>>)[name]);
    merged[name] = merge(child, values[0], values[1], path === '' ? name : `${path}.${name}`, paths);
  }
  return Object.freeze(merged);
}

/** Maps of free keys have no prototype, which strict equality would count. */
function sameValue(before: unknown, after: unknown): boolean {
  return isDeepStrictEqual(before, after);
}

/** Every key that is taken while running, by path. */
export function liveKeys(schema: FieldSchema = configFields, path = ''): readonly string[] {
  if (schema.withoutEffect !== undefined) return [];
  if (schema.live === true) return [path];
  return Object.entries(schema.properties ?? {}).flatMap(([name, child]) =>
    liveKeys(child, path === '' ? name : `${path}.${name}`),
  );
}
