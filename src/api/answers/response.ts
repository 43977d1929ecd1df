import { type Static, type TSchema, Type } from 'typebox';

export type Answer<T extends TSchema> = Fixed<Static<T>>;

/** As {@link Answer}, of rows whose null fields are left out (docs/compatibility.md#common-rules). */
export type ResponseWithoutNulls<T extends TSchema> = {
  readonly [Field in keyof Static<T>]: Exclude<Fixed<Static<T>[Field]>, null>;
};

type Fixed<T> = T extends readonly (infer Item)[]
  ? readonly Fixed<Item>[]
  : T extends object
    ? { readonly [Field in keyof T]: Fixed<T[Field]> }
    : T;

/** The schema or null. */
export const nullable = <T extends Parameters<typeof Type.Optional>[0]>(type: T, description?: string) =>
  Type.Union([type, Type.Null()], description === undefined ? {} : { description });

/** One of some texts. */
export const oneOf = <const Text extends string>(texts: readonly Text[], description?: string) =>
  Type.Unsafe<Text>({ type: 'string', enum: [...texts], ...(description === undefined ? {} : { description }) });

/** A text or null. */
export const textOrNull = (description?: string) => nullable(Type.String(), description);

/** A whole number that is not negative. */
export const count = (description: string) => Type.Integer({ minimum: 0, description });

/** A time in RFC 3339. */
export const time = (description: string) => Type.String({ format: 'date-time', description });
