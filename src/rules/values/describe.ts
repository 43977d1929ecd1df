import { kindName, kindOf, type Value } from './value.ts';

/** A value for messages: only its type, as texts may be header values that must not reach a log. */
export function describe(value: Value): string {
  return value === null ? 'null' : `a value of type ${kindName(kindOf(value))}`;
}
