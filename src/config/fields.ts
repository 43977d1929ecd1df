import { type TUnsafe, Type } from 'typebox';
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
  /** One sentence or two for docs/configuration.md. */
  readonly description: string;
  /** Never printed, logged or answered. */
  readonly secret?: true;
  /** Of a secret: a changed file is read without a restart if the value is `${FILE:PATH}` (docs/secrets.md). */
  readonly followed?: true;
  /** Older or other names of the key, accepted with the same meaning. */
  readonly aliases?: readonly string[];
  /** Reason that the key and its children are accepted without effect; noted at start when the file sets it. */
  readonly withoutEffect?: string;
  /** Of a section: a word that may stand in its place, and the key of the section whose value it is. */
  readonly shorthand?: { readonly word: string; readonly key: string };
  /** Of a section: keys that are accepted and dropped, each with the reason. */
  readonly ignored?: Readonly<Record<string, string>>;
}

interface Bounds {
  readonly minimum?: number;
  readonly maximum?: number;
}

/** A key's default: left out for keys that must be given, null for keys that may stay unset. */
type Default<T> = { readonly default?: T };

type Kind = 'text' | 'flag' | 'integer' | 'number' | 'duration' | 'size' | 'choice' | 'list' | 'map';

/** The part of the schema that the reader of the file works with; plain data, as JSON Schema. */
export interface FieldSchema extends FieldNotes, Bounds {
  /** Kind of the key's value, which states how its text is read. */
  readonly kind: Kind | 'section';
  readonly default?: unknown;
  /** True where null means that the key is not set. */
  readonly nullable?: boolean;
  readonly format?: TextFormat;
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

function field<T>(kind: Kind, type: string | undefined, notes: object): TUnsafe<T> {
  const nullable = 'default' in notes && notes.default === null;
  return Type.Unsafe<T>({ kind, ...(type === undefined ? {} : { type }), ...(nullable ? { nullable } : {}), ...notes });
}

/** Text; numbers and booleans in the file are taken as they are written. */
export function text<const D extends string | null = string>(
  notes: FieldNotes & Default<D> & { readonly format?: TextFormat },
): TUnsafe<D extends null ? string | null : string> {
  return field('text', 'string', notes);
}

/** Secret text that follows its file (`SecretText`). */
export function secretText<const D extends null | undefined = undefined>(
  notes: FieldNotes & { readonly default?: D },
): TUnsafe<D extends null ? Secret | null : Secret> {
  return field('text', 'string', { ...notes, secret: true, followed: true });
}

/** `true` or `false`. */
export function flag<const D extends boolean | null = boolean>(
  notes: FieldNotes & Default<D> & { readonly words?: Readonly<Record<string, boolean>> },
): TUnsafe<D extends null ? boolean | null : boolean> {
  return field('flag', 'boolean', notes);
}

export function integer<const D extends number | null = number>(
  notes: FieldNotes & Default<D> & Bounds,
): TUnsafe<D extends null ? number | null : number> {
  return field('integer', 'integer', notes);
}

export function decimal<const D extends number | null = number>(
  notes: FieldNotes & Default<D> & Bounds & Pick<FieldSchema, 'isBound'>,
): TUnsafe<D extends null ? number | null : number> {
  return field('number', 'number', notes);
}

/** Duration such as `30s`; milliseconds in the configuration object. Default and bounds are in milliseconds. */
export function duration<const D extends number | null = number>(
  notes: FieldNotes & Default<D> & Bounds,
): TUnsafe<D extends null ? number | null : number> {
  return field('duration', 'string', notes);
}

/** Size such as `16MB`; bytes in the configuration object. Default and bounds are in bytes. */
export function size<const D extends number | null = number>(
  notes: FieldNotes & Default<D> & Bounds,
): TUnsafe<D extends null ? number | null : number> {
  return field('size', 'string', notes);
}

export function choice<const V extends readonly string[], const D extends V[number] | null = V[number]>(
  values: V,
  notes: FieldNotes & Default<D> & Pick<FieldSchema, 'ordinals' | 'others'>,
): TUnsafe<D extends null ? V[number] | null : V[number]> {
  return field('choice', 'string', { enum: values, ...notes });
}

/** List of values of one kind. A single value in the file counts as a list of one. */
export function listOf<T, const D extends readonly T[] | null = readonly T[]>(
  items: TUnsafe<T>,
  notes: FieldNotes & Default<D>,
): TUnsafe<D extends null ? readonly T[] | null : readonly T[]> {
  return field('list', 'array', { items, ...notes });
}

export function mapOf<T>(
  values: TUnsafe<T>,
  notes: FieldNotes & Default<Readonly<Record<string, T>>>,
): TUnsafe<Readonly<Record<string, T>>> {
  // Free keys: without prototype, so that a name such as "constructor" finds nothing that was not given.
  const defaults = notes.default === undefined ? {} : { default: Object.assign(Object.create(null), notes.default) };
  return field('map', 'object', { items: values, ...notes, ...defaults });
}

type Properties = Readonly<Record<string, TUnsafe<unknown>>>;
type Section<P extends Properties> = { readonly [K in keyof P]: P[K] extends TUnsafe<infer T> ? T : never };

/** A group of keys that is always there: what the file leaves out has its default. */
export function section<const P extends Properties>(properties: P, notes: FieldNotes): TUnsafe<Section<P>> {
  return Type.Unsafe<Section<P>>({
    kind: 'section',
    type: 'object',
    additionalProperties: false,
    properties,
    ...notes,
  });
}

/** A group of keys that means something by being there; null when the file has none. */
export function optionalSection<const P extends Properties>(
  properties: P,
  notes: FieldNotes,
): TUnsafe<Section<P> | null> {
  return Type.Unsafe<Section<P> | null>({
    kind: 'section',
    type: 'object',
    additionalProperties: false,
    nullable: true,
    default: null,
    properties,
    ...notes,
  });
}

/** The schema as data for the reader, the printer and the documentation. */
export function schemaData(schema: TUnsafe<unknown>): FieldSchema {
  return schema as unknown as FieldSchema;
}
