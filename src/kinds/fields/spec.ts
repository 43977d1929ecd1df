import { type Static, type TObject, type TProperties, type TSchemaOptions, Type } from 'typebox';
import { type CelRule, cel } from '../../model/cel.ts';

/** Builders of the schemas of specs. CEL rules are checked by the API server. */
type Options = TSchemaOptions & Readonly<Record<string, unknown>>;

/** An optional text. */
export const optionalText = (description: string, options: Options = {}, ...rules: readonly CelRule<string>[]) =>
  Type.Optional(Type.String({ ...options, ...celOf(rules), description }));

/** An optional whole number. */
export const optionalInteger = (minimum: number, maximum: number, description: string, options: Options = {}) =>
  Type.Optional(Type.Integer({ minimum, maximum, ...options, description }));

/** An optional truth value. */
export const optionalFlag = (description: string, options: Options = {}) =>
  Type.Optional(Type.Boolean({ ...options, description }));

/** `spec.suspend`. @param description effect of `true` */
export const suspendField = (description: string) => optionalFlag(description, { default: false });

/** One of several texts. */
export const literals = <const T extends string>(values: readonly T[], description: string, options: Options = {}) =>
  Type.Unsafe<T>(
    Type.Union(
      values.map((value) => Type.Literal(value)),
      { ...options, description },
    ),
  );

/** An optional one of several texts. */
export const optionalChoice = <const T extends string>(...parameters: Parameters<typeof literals<T>>) =>
  Type.Optional(literals<T>(...parameters));

/** An object without other fields. */
export const closedObject = <P extends TProperties>(
  fields: P,
  description: string,
  ...rules: readonly CelRule<Static<TObject<P>>>[]
) => Type.Object(fields, { additionalProperties: false, description, ...celOf(rules) });

function celOf(rules: readonly CelRule[]): object {
  return rules.length === 0 ? {} : cel(...rules);
}
