import type { FieldSchema } from './fields.ts';
import { configFields } from './gatewayConfig.ts';

/** What stands in place of a secret wherever configuration is shown. */
export const MASK = '***';

/** Paths of all keys that are secrets, e.g. `dataStore.password`, `presetUsers.{name}.password`. */
export function secretKeys(schema: FieldSchema = configFields, path = ''): readonly string[] {
  if (schema.secret === true) return [path];
  const inner = Object.entries(schema.properties ?? {}).flatMap(([name, child]) =>
    secretKeys(child, path === '' ? name : `${path}.${name}`),
  );
  return schema.items === undefined ? inner : [...inner, ...secretKeys(schema.items, `${path}.{name}`)];
}

/** A text without the passwords that URLs in it carry: `user:***@host`, `?password=***`. */
export function maskUrls(text: string): string {
  if (!text.includes('://')) return text;
  const masked = text.includes('@') ? text.replace(/(:\/\/[^\s/?#:@]*:)[^\s/?#]*(?=@)/g, `$1${MASK}`) : text;
  if (!masked.includes('=')) return masked;
  return masked.replace(/([?&;][^=&;\s]*(?:password|secret|token|passphrase)[^=&;\s]*=)[^&;\s]*/gi, `$1${MASK}`);
}
