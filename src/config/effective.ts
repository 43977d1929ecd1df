import { stringify } from 'yaml';
import type { Secret } from '../model/secret.ts';
import type { FieldSchema } from './fields.ts';
import { configFields, type GatewayConfig } from './gatewayConfig.ts';
import { MASK, maskUrls } from './secrets.ts';
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
  switch (schema.kind) {
    case 'section': {
      const { shorthand } = schema;
      const values = value as Readonly<Record<string, unknown>>;
      return shorthand !== undefined && values[shorthand.key] === shorthand.word
        ? shorthand.word
        : shownSection(schema, values);
    }
    case 'map':
      return shownMap(schema.items, value as Readonly<Record<string, unknown>>);
    case 'list':
      return (value as readonly unknown[]).map((item) =>
        schema.items === undefined ? item : printable(schema.items, item),
      );
    case 'duration':
      return formatDuration(value as number);
    case 'size':
      return formatSize(value as number);
    default:
      return typeof value === 'string' ? maskUrls(value) : value;
  }
}

function shownSection(schema: FieldSchema, values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const shownValues: Record<string, unknown> = {};
  for (const [name, child] of Object.entries(schema.properties ?? {})) {
    if (child.withoutEffect === undefined) shownValues[name] = printable(child, values[name]);
  }
  return shownValues;
}

function shownMap(items: FieldSchema | undefined, values: Readonly<Record<string, unknown>>): Map<string, unknown> {
  return new Map(
    Object.entries(values).map(([key, value]) => [key, items === undefined ? value : printable(items, value)]),
  );
}
