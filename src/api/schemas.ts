import {
  type Static,
  type TObjectOptions,
  type TProperties,
  type TSchema,
  type TStringOptions,
  type TUnsafe,
  Type,
} from 'typebox';
import { type ErrorCode, errorCatalog } from '../model/errors.ts';

const codes = Object.keys(errorCatalog) as ErrorCode[];

/** Every error of the API (docs/errors.md). */
export const ErrorBody = Type.Object(
  {
    error: Type.Object({
      code: Type.Unsafe<ErrorCode>({ type: 'string', enum: codes, description: 'Stable code, see docs/errors.md.' }),
      message: Type.String({ description: 'What is wrong and how to fix it.' }),
      field: Type.Optional(Type.String({ description: 'Path of the field that is wrong.' })),
      owners: Type.Optional(
        Type.Array(Type.Object({ field: Type.String(), manager: Type.String() }), {
          description: 'EG_FIELD_OWNED: who owns the fields that the change would set.',
        }),
      ),
      problems: Type.Optional(
        Type.Array(
          Type.Object({
            field: Type.String(),
            message: Type.String(),
            line: Type.Optional(Type.Integer({ description: 'Line of the field, from 1.' })),
            column: Type.Optional(Type.Integer({ description: 'Column of the line, from 1.' })),
          }),
          { description: 'Every mistake, with its place where it is in a text.' },
        ),
      ),
    }),
  },
  { $id: 'Error', description: 'An error.' },
);

/** Error of calls of the web application: the HTTP status again as `code`, and the API's own error (docs/errors.md). */
export const WebappError = Type.Object(
  {
    code: Type.Integer({ description: 'The HTTP status.' }),
    msg: Type.String({ description: 'What is wrong and how to fix it.' }),
    error: Type.Index(ErrorBody, ['error']),
  },
  { $id: 'WebappError', description: 'An error of the web application family.' },
);

/** Query of a write that may take fields over (docs/gitops.md#who-owns-a-field); needs ADMIN. */
export const Force = Type.Object({
  force: Type.Optional(
    Type.Union([Type.Literal('true'), Type.Literal('false'), Type.Literal('')], {
      description: 'Takes over fields that another manager (kubectl, a GitOps controller) owns.',
    }),
  ),
});

/** Query of a call that may create a resource. */
export const Creation = Type.Object({
  ...Force.properties,
  namespace: Type.Optional(
    Type.String({
      maxLength: 63,
      description: "Namespace of a new resource, one of a tenant; the gateway's own by default.",
    }),
  ),
});

/** Schemas that the OpenAPI document holds once under their `$id`. */
export function reference<T extends TSchema>(schema: T & { $id?: string }): TUnsafe<Static<T>> {
  if (schema.$id === undefined) throw new TypeError('a shared schema needs an $id');
  return Type.Unsafe({ $ref: `${schema.$id}#` });
}

/** Description of a response. */
export function content(description: string, schema: TSchema, mediaType = 'application/json'): TSchema {
  return { description, content: { [mediaType]: { schema } } } as TSchema;
}

/** Descriptions of the error responses of these statuses, each with the codes of the catalogue that have it. */
export function errorResponses(isEnveloped: boolean, statuses: readonly number[]): Record<string, TSchema> {
  const schema = isEnveloped ? reference(WebappError) : reference(ErrorBody);
  return Object.fromEntries(
    statuses.map((status) => {
      const meanings = codes
        .filter((code) => errorCatalog[code].status === status)
        .map((code) => (isEnveloped ? errorCatalog[code].meaning : `${code}: ${errorCatalog[code].meaning}`));
      return [String(status), content(meanings.join(' '), schema)];
    }),
  );
}

/** A row whose null fields are left out. */
type WithoutNulls<T> = { readonly [Field in keyof T as null extends T[Field] ? never : Field]: T[Field] } & {
  readonly [Field in keyof T as null extends T[Field] ? Field : never]?: Exclude<T[Field], null>;
};

/** Null fields are left out of responses (docs/compatibility.md#common-rules). */
export function withoutNulls<T extends object>(row: T): WithoutNulls<T> {
  return Object.fromEntries(Object.entries(row).filter(([, value]) => value !== null)) as WithoutNulls<T>;
}

/** A time in the form of responses. @param milliseconds since 1970 */
export function iso(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

/** As `iso`, of a time that may be unknown. */
export function isoOrNull(milliseconds: number | null | undefined): string | null {
  return milliseconds == null ? null : iso(milliseconds);
}

export type ResponseBody<T extends TSchema> = Fixed<Static<T>>;

/** As {@link ResponseBody}, of rows whose null fields are left out (docs/compatibility.md#common-rules). */
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

/** A text. */
export const textField = (description: string) => Type.String({ description });

/** A whole number. */
export const integerField = (description: string) => Type.Integer({ description });

/** True or false. */
export const flagField = (description: string) => Type.Boolean({ description });

/** A list. */
export const list = <T extends Parameters<typeof Type.Optional>[0]>(items: T, description: string) =>
  Type.Array(items, { description });

/** A list of objects. */
export const objects = <P extends TProperties>(description: string, properties: P) =>
  Type.Array(Type.Object(properties), { description });

/** An object or null. */
export const objectOrNull = <P extends TProperties>(description: string, properties: P) =>
  nullable(Type.Object(properties), description);

/** An object with options, such as the name that the OpenAPI document has it under. */
export const objectOf = <P extends TProperties>(options: TObjectOptions, properties: P) =>
  Type.Object(properties, options);

/** A text that may be left out. */
export const optionalTextField = (options: TStringOptions) => Type.Optional(Type.String(options));
