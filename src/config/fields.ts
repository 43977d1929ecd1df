import { distance } from 'fastest-levenshtein';
import type { Secret } from '../model/secret.ts';

/** Forms of text that are checked when the file is read (`formats.ts` has the checks and their messages). */
export type TextFormat =
  | 'authority'
  | 'cidr'
  | 'databaseName'
  | 'headerName'
  | 'gatewayClass'
  | 'host'
  | 'hostNamePattern'
  | 'hostPattern'
  | 'javaRegex'
  | 'jdbcUrl'
  | 'labelSelector'
  | 'leaseName'
  | 'name'
  | 'nameOrNothing'
  | 'path'
  | 'plainPath'
  | 'productName'
  | 'regex'
  | 'requestKey'
  | 'url'
  | 'urlPath';

/** Metadata of a configuration key. */
export interface FieldNotes {
  /** Never printed, logged or sent. */
  readonly secret?: true;
  /** Older or other names of the key, accepted with the same meaning. */
  readonly aliases?: readonly string[];
  /** Reason that the key and its children are accepted without effect; noted at start when the file sets it. */
  readonly withoutEffect?: string;
  /** Of a section: a word that may stand in its place, and the key of the section whose value it is. */
  readonly shorthand?: { readonly word: string; readonly key: string };
  /** Of a section: keys that are accepted and dropped, each with the reason. */
  readonly ignored?: Readonly<Record<string, string>>;
}

/** A key of the schema, as the reader of the file works with it: plain data. */
export interface FieldSchema extends FieldNotes {
  readonly kind: 'text' | 'flag' | 'integer' | 'number' | 'duration' | 'size' | 'choice' | 'list' | 'map' | 'section';
  /** One sentence or two for docs/configuration.md. */
  readonly description: string;
  /** Left out for a key that must be given; null: the key may stay unset. */
  readonly default?: unknown;
  /** Of a secret: a changed file is read without a restart if the value is `${FILE:PATH}` (docs/secrets.md). */
  readonly followed?: true;
  readonly format?: TextFormat;
  readonly range?: readonly [minimum: number, maximum?: number];
  readonly enum?: readonly string[];
  /** Of a choice: its words by the numbers that the reference takes for them. */
  readonly ordinals?: readonly string[];
  /** Of a choice that may stay unset: other words leave it unset; what happens then, for a note. */
  readonly others?: string;
  /** Of a number: a limit of another value, which the reference also takes as NaN and Infinity. */
  readonly isBound?: true;
  readonly words?: Readonly<Record<string, boolean>>;
  /** Schema of a list's elements or of a map's values. */
  readonly items?: FieldSchema;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
}

/** A key of the schema with the type of its value. */
export interface ConfigField<T> extends FieldSchema {
  readonly value?: T;
}

export type ValueOf<F> = F extends ConfigField<infer T> ? T : never;

/** Notes of a value: `D` is the type of its default, `R` true if it must be given; without both it may stay unset. */
type Notes<D, R> = FieldNotes & { readonly default?: D; readonly required?: R };
type Value<T, D, R> = [D] extends [never] ? (R extends true ? T : T | null) : T;
type Range = Pick<FieldSchema, 'range'>;

function field<T>(
  kind: FieldSchema['kind'],
  description: string,
  { required, ...notes }: { readonly required?: boolean } = {},
  unset: unknown = null,
): ConfigField<T> {
  return { kind, description, ...(required === true ? {} : { default: unset }), ...notes };
}

/** Returns the function that makes keys of a kind with a value of type `T`, and `N` as its further notes. */
function maker<T, N = unknown>(kind: FieldSchema['kind']) {
  return <const D extends T = never, const R extends boolean = false>(
    description: string,
    notes?: Notes<D, R> & N,
  ): ConfigField<Value<T, D, R>> => field(kind, description, notes);
}

/** Text; numbers and booleans in the file are taken as they are written. */
export const text = maker<string, Pick<FieldSchema, 'format'>>('text');
export const flag = maker<boolean, Pick<FieldSchema, 'words'>>('flag');
export const integer = maker<number, Range>('integer');
export const decimal = maker<number, Range & Pick<FieldSchema, 'isBound'>>('number');
/** Duration such as `30s`; milliseconds in the configuration object. Default and range are in milliseconds. */
export const duration = maker<number, Range>('duration');
/** Size such as `16MB`; bytes in the configuration object. Default and range are in bytes. */
export const size = maker<number, Range>('size');

/** Texts of a list or map. */
export function each(format?: TextFormat): ConfigField<string> {
  return field('text', '', { required: true, ...(format === undefined ? {} : { format }) });
}

/** Secret text that follows its file (`SecretText`). */
export function secretText<const R extends boolean = false>(
  description: string,
  notes?: { readonly required?: R },
): ConfigField<Value<Secret, never, R>> {
  return field('text', description, { ...notes, ...{ secret: true, followed: true } });
}

export function choice<const V extends readonly string[], const D extends V[number] = never>(
  description: string,
  values: V,
  notes?: Notes<D, false> & Pick<FieldSchema, 'ordinals' | 'others'>,
): ConfigField<Value<V[number], D, false>> {
  return field('choice', description, { ...{ enum: values }, ...notes });
}

export function oneOf<const V extends readonly string[]>(values: V): ConfigField<V[number]> {
  return field('choice', '', { required: true, ...{ enum: values } });
}

/** List of values of one kind, empty by default. A single value in the file counts as a list of one. */
export function listOf<T, const D extends readonly T[] | null = never>(
  description: string,
  items: ConfigField<T>,
  notes?: Notes<D, boolean>,
): ConfigField<[D] extends [never] ? readonly T[] : null extends D ? readonly T[] | null : readonly T[]> {
  return field('list', description, { ...{ items }, ...notes }, []);
}

/** Values of one kind by name, none by default. Without prototype, so that a name such as "constructor" finds nothing. */
export function mapOf<T>(
  description: string,
  items: ConfigField<T>,
  notes?: Notes<Readonly<Record<string, T>>, false>,
): ConfigField<Readonly<Record<string, T>>> {
  const fallback = Object.assign(Object.create(null), notes?.default);
  return field('map', description, { ...notes, ...{ items, default: fallback } });
}

type Section<P> = { readonly [K in keyof P]: ValueOf<P[K]> };
type Properties = Readonly<Record<string, FieldSchema>>;

/** A group of keys that is always there: what the file leaves out has its default. */
export function section<const P extends Properties>(
  description: string,
  properties: P,
  notes?: FieldNotes,
): ConfigField<Section<P>> {
  return field('section', description, { required: true, ...{ properties }, ...notes });
}

/** A group of keys that means something by being there; null when the file has none. */
export function optionalSection<const P extends Properties>(
  description: string,
  properties: P,
  notes?: FieldNotes,
): ConfigField<Section<P> | null> {
  return field('section', description, { required: false, ...{ properties }, ...notes });
}

/** The known word that is nearest to a text by edits, whatever its letter case; null without known words. */
export function nearest(text: string, words: Iterable<string>): string | null {
  let best: string | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const word of words) {
    const edits = distance(text.toLowerCase(), word.toLowerCase());
    if (edits < least) {
      least = edits;
      best = word;
    }
  }
  return best;
}

/** True when two words are so near that one is a slip of the other. */
export function isSlip(text: string, word: string): boolean {
  return distance(text.toLowerCase(), word.toLowerCase()) <= Math.max(1, Math.floor(word.length / 4));
}

/** Paths of sections that have a key of exactly this name, e.g. `routing` for `asyncTimeout`. */
export function sectionsWith(key: string, schema: FieldSchema, path = ''): readonly string[] {
  const paths: string[] = [];
  for (const [name, child] of Object.entries(schema.properties ?? {})) {
    if (name === key || child.aliases?.includes(key)) paths.push(path);
    paths.push(...sectionsWith(key, child, path === '' ? name : `${path}.${name}`));
  }
  return paths;
}
