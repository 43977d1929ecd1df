/** A rule that the API server checks: a CEL expression over `self`, and the message if it is false. */
export type CelRule = readonly [rule: string, message: string];

/**
 * CEL rules to spread into a schema, so that the CRD contains the gateway's messages. Kubernetes: "Validation rules",
 * x-kubernetes-validations.
 */
export function cel(...rules: readonly CelRule[]): {
  readonly 'x-kubernetes-validations': readonly { readonly rule: string; readonly message: string }[];
} {
  return { 'x-kubernetes-validations': rules.map(([rule, message]) => ({ rule, message })) };
}

/** Makes `spec.name` immutable: the registry, the history and rules identify the object by it. */
export const immutableName = (kind: string): CelRule => [
  'has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)',
  `name is immutable; delete the ${kind} and create another one to rename it`,
];

export const httpUrl = (field: string): CelRule => [
  "isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '' && !self.contains('?') && !self.contains('#') && !self.contains('@')",
  `${field} must be an http or https URL without user, query and fragment, such as http://engine-a:8080`,
];

/**
 * Rejects hosts that no cluster can have, regardless of the configuration: IPv4 addresses in obfuscated forms
 * (`2130706433`, `0x7f.1`, `0177.0.0.1`), the unspecified address, multicast and broadcast. The gateway rejects
 * configurable addresses, including link-local ones, as the API server does not know its configuration.
 */
export const usableHost = (field: string): CelRule => [
  // Matches the text itself, because the API server estimates the cost of a pattern by the length of its input.
  "!self.matches('^https?://([^/:]*[.])?(0[xX][0-9a-fA-F]*|[0-9]+)[.]?([:/]|$)') || (self.matches('^https?://[1-9][0-9]{0,2}([.](0|[1-9][0-9]{0,2})){3}([:/]|$)') && !self.matches('^https?://(22[4-9]|23[0-9]|25[5-9]|2[6-9][0-9]|[3-9][0-9][0-9])[.]'))",
  `${field} must name a host by its name or by an IPv4 address of four decimal numbers that a server can have`,
];

export const usablePort = (field: string): CelRule => [
  // Matches the text itself, because of the cost.
  "!self.matches('^https?://([^/:]*|[[][^/]*[]]):(0+|[0-9]{6,}|[7-9][0-9]{4}|6[6-9][0-9]{3}|65[6-9][0-9]{2}|655[4-9][0-9]|6553[6-9])(/|$)')",
  `${field} must have a port from 1 to 65535, or none`,
];

/** Routing groups are sent in a header, whose value has no space at either end. */
export const groupWithoutEdgeSpaces = (field: string): CelRule => [
  'self == self.trim()',
  `${field} must not begin or end with a space: no header and no rule would name it`,
];

/** Equivalent of a name's pattern, which a field with rules does not have in the CRD. */
export const withoutControlCharacters = (field: string): CelRule => [
  "self.matches('^[^\\\\x00-\\\\x1f\\\\x7f]+$')",
  `${field} must not hold control characters`,
];
