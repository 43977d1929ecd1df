/** A rule that the API server checks itself: a CEL expression over `self`, and the message when it is false. */
export type CelRule = readonly [rule: string, message: string];

/**
 * Rules to spread into a schema: kept beside it, so that the CRD says what the gateway says.
 * Kubernetes: "Validation rules", x-kubernetes-validations.
 */
export function cel(...rules: readonly CelRule[]): {
  readonly 'x-kubernetes-validations': readonly { readonly rule: string; readonly message: string }[];
} {
  return { 'x-kubernetes-validations': rules.map(([rule, message]) => ({ rule, message })) };
}

/** Keeps `spec.name` as it was created: the registry, the history and rules know the object by it. */
export const immutableName = (kind: string): CelRule => [
  'has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)',
  `name is immutable; delete the ${kind} and create another one to rename it`,
];

/** URL shape of a field, with a message that names it. */
export const httpUrl = (field: string): CelRule => [
  "isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '' && !self.contains('?') && !self.contains('#') && !self.contains('@')",
  `${field} must be an http or https URL without user, query and fragment, such as http://engine-a:8080`,
];
