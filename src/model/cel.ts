/**
 * A rule that the API server checks: a CEL expression over `self`, and the message if it is false. For sources without an API server:
 * the field below `self` in which the mistake is, '' for `self` as a whole, null if the rule is met, or the names of fields of which
 * exactly one has to be set; and the begin of the message there,
 * which is `is missing: ` for a field that is missing.
 */
export type CelRule<Self = never> = readonly [
  rule: string,
  message: string,
  mistake?: ((self: Self) => string | null) | readonly string[],
  begin?: string,
];

/** Rules by their form in a schema. */
export const rulesOf = new WeakMap<object, readonly CelRule[]>();

/**
 * CEL rules to spread into a schema, so that the CRD contains the gateway's messages. Kubernetes: "Validation rules",
 * x-kubernetes-validations.
 */
export function cel(...rules: readonly CelRule[]) {
  const validations = rules.map(([rule, message]) => ({ rule, message }));
  rulesOf.set(validations, rules);
  return { 'x-kubernetes-validations': validations };
}

/** Makes `spec.name` immutable: the registry, the history and rules identify the object by it. */
export const immutableName = (kind: string): CelRule<unknown> => [
  'has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)',
  `name is immutable; delete the ${kind} and create another one to rename it`,
];

export const httpUrl = (field: string): CelRule<unknown> => [
  "isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '' && !self.contains('?') && !self.contains('#') && !self.contains('@')",
  `${field} must be an http or https URL without user, query and fragment, such as http://engine-a:8080`,
];

/**
 * Rejects hosts that no cluster can have, regardless of the configuration: IPv4 addresses in obfuscated forms
 * (`2130706433`, `0x7f.1`, `0177.0.0.1`), the unspecified address, multicast and broadcast. The gateway rejects
 * configurable addresses, including link-local ones, as the API server does not know its configuration.
 */
export const usableHost = (field: string): CelRule<unknown> => [
  // Matches the text itself, because the API server estimates the cost of a pattern by the length of its input.
  "!self.matches('^https?://([^/:]*[.])?(0[xX][0-9a-fA-F]*|[0-9]+)[.]?([:/]|$)') || (self.matches('^https?://[1-9][0-9]{0,2}([.](0|[1-9][0-9]{0,2})){3}([:/]|$)') && !self.matches('^https?://(22[4-9]|23[0-9]|25[5-9]|2[6-9][0-9]|[3-9][0-9][0-9])[.]'))",
  `${field} must name a host by its name or by an IPv4 address of four decimal numbers that a server can have`,
];

/** Rejects a path. Existing resources may have one: requests go to their path below it. */
export const withoutPath = (field: string): CelRule<unknown> => [
  "!self.matches('^https?://[^/]+/.')",
  `${field} must end after host and port; leave out the path`,
];

export const usablePort = (field: string): CelRule<unknown> => [
  // Matches the text itself, because of the cost.
  "!self.matches('^https?://([^/:]*|[[][^/]*[]]):(0+|[0-9]{6,}|[7-9][0-9]{4}|6[6-9][0-9]{3}|65[6-9][0-9]{2}|655[4-9][0-9]|6553[6-9])(/|$)')",
  `${field} must have a port from 1 to 65535, or none`,
];

/** Routing groups are sent in a header, whose value has no space at either end. */
export const groupWithoutEdgeSpaces = (field: string): CelRule<unknown> => [
  'self == self.trim()',
  `${field} must not begin or end with a space: no header and no rule would name it`,
];

/** Equivalent of a name's pattern, which a field with rules does not have in the CRD. */
export const withoutControlCharacters = (field: string): CelRule<unknown> => [
  "self.matches('^[^\\\\x00-\\\\x1f\\\\x7f]+$')",
  `${field} must not hold control characters`,
];

export const withoutDuplicates = (message: string): CelRule<readonly string[]> => [
  'self.all(x, self.exists_one(y, x == y))',
  message,
  (values) => (new Set(values).size < values.length ? '' : null),
];
