import type { FieldSchema } from './fields.ts';
import { configFields } from './gatewayConfig.ts';

/** Placeholder of secrets in displayed configuration. */
export const MASK = '***';

/** Paths of all keys that are secrets, e.g. `dataStore.password`, `presetUsers.{name}.password`. */
export function secretKeys(schema: FieldSchema = configFields, path = ''): readonly string[] {
  if (schema.secret === true) return [path];
  const inner = Object.entries(schema.properties ?? {}).flatMap(([name, child]) =>
    secretKeys(child, path === '' ? name : `${path}.${name}`),
  );
  return schema.items === undefined ? inner : [...inner, ...secretKeys(schema.items, `${path}.{name}`)];
}

/**
 * A text whose URLs show neither user info nor values of their query: `https://***@host/path?key=***`. JDBC URLs are
 * masked in each of their forms: `?key=value`, `;key=value`, `(key=value)` and `jdbc:family:user/password@host`.
 * Linear in the length of the text.
 */
export function maskUrls(text: string): string {
  if (!(text.includes('://') || text.includes('jdbc:')) || !/[@?;#=]/.test(text)) return text;
  return text.replace(/\S+/g, (word) => (word.includes('://') || word.includes('jdbc:') ? maskedUrl(word) : word));
}

function maskedUrl(word: string): string {
  const slashes = word.indexOf('://');
  const start = slashes >= 0 ? slashes + 3 : word.lastIndexOf(':', upTo(word, /[@?;]/)) + 1;
  const rest = word.slice(start);
  const end = upTo(rest, /[?#;]/);
  const head = rest.slice(0, end);
  const user = slashes >= 0 ? maskedUser(head) : maskedTo(head, head.lastIndexOf('@'));
  return word.slice(0, start) + maskedProperties(user) + maskedQuery(rest.slice(end));
}

/** User info ends at the last "@" of the authority; a "/" in a password makes a port that is not a number. */
function maskedUser(head: string): string {
  const authority = head.slice(0, upTo(head, /\//));
  const isWhole = /^[^:@]*(:\d*)?$|^\[[^\]]*\](:\d*)?$/.test(authority);
  return maskedTo(head, (authority.includes('@') || isWhole ? authority : head).lastIndexOf('@'));
}

function maskedTo(text: string, end: number): string {
  return end < 0 ? text : `${MASK}${text.slice(end)}`;
}

/** Hosts of MySQL's drivers may hold properties: `address=(host=h)(password=p)`. */
function maskedProperties(head: string): string {
  return head.includes('(') ? head.replace(/([(,][^=(),]*=)[^(),]*/g, `$1${MASK}`) : head;
}

/** Query (`?a=b&c=d`), properties (`;a=b;c=d`) and fragment; of a fragment only what has the form of a query. */
function maskedQuery(tail: string): string {
  const separators = tail.startsWith(';') ? /([;?&#])/ : /([?&#])/;
  let before = '';
  return tail
    .split(separators)
    .map((part, index) => {
      if (index % 2 === 1) {
        before = part;
        return part;
      }
      const equals = part.indexOf('=');
      if (equals >= 0) return `${part.slice(0, equals)}=${MASK}`;
      return part === '' || before === '#' ? part : MASK;
    })
    .join('');
}

function upTo(text: string, ends: RegExp): number {
  const end = text.search(ends);
  return end < 0 ? text.length : end;
}
