import { Type } from 'typebox';

const MAX_LENGTH = 40;

/** Schema rules of a class name: an RFC 1123 label, shorter, as it is a part of the names of Leases. */
export const gatewayClassRules = {
  minLength: 1,
  maxLength: MAX_LENGTH,
  pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$',
} as const;

/**
 * `spec.gatewayClassName` of every kind: the gateway that a resource belongs to (docs/resources.md#several-gateways).
 */
export const GatewayClassName = Type.String({
  ...gatewayClassRules,
  description:
    'Class of the gateway that the resource is for, resources.class of its configuration; left out, it is for gateways without a class.',
});

/** Returns the mistake in a class name, or null. */
export function gatewayClassProblem(text: string): string | null {
  return text.length <= MAX_LENGTH && new RegExp(gatewayClassRules.pattern).test(text)
    ? null
    : `must be lower-case letters, digits and "-", at most ${MAX_LENGTH}, starting and ending with a letter or digit, not "${text}"`;
}
