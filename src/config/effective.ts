import { stringify } from 'yaml';
import type { Secret } from '../model/secret.ts';
import type { FieldSchema } from './fields.ts';
import { configFields, type GatewayConfig } from './gatewayConfig.ts';
import { MASK, maskUrls } from './logger.ts';
import { formatDuration, formatSize } from './units.ts';

/**
 * The effective configuration as YAML in the file's own form: every key that has an effect, defaults included,
 * secrets masked. Without the masks it reads back as the same configuration.
 */
export function effectiveYaml(config: GatewayConfig): string {
  return stringify(printable(configFields, config), { lineWidth: 0 });
}

function printable(schema: FieldSchema, value: unknown): unknown {
  if (value === null || value === undefined) return null;
  if (schema.secret === true) return value === '' || (value as Secret).text === '' ? '' : MASK;
  const { items, properties = {}, shorthand } = schema;
  const values = value as Readonly<Record<string, unknown>>;
  switch (schema.kind) {
    case 'section': {
      if (shorthand !== undefined && values[shorthand.key] === shorthand.word) return shorthand.word;
      const shown = Object.entries(properties).filter(([, child]) => child.withoutEffect === undefined);
      return Object.fromEntries(shown.map(([name, child]) => [name, printable(child, values[name])]));
    }
    case 'map':
      return new Map(Object.entries(values).map(([key, each]) => [key, items && printable(items, each)]));
    case 'list':
      return (value as readonly unknown[]).map((each) => items && printable(items, each));
    case 'duration':
      return formatDuration(value as number);
    case 'size':
      return formatSize(value as number);
    default:
      return typeof value === 'string' ? maskUrls(value) : value;
  }
}
