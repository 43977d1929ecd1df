/**
 * Features whose keys are accepted already, so that an existing file starts the gateway, but which change nothing
 * yet. Whoever builds one deletes its line here; its keys then count.
 */
const pendingFeatures = {
  authentication:
    'logging in is not built into this version: every REST call passes without authentication, as if the key were not there',
  handshakeCookies: 'sticky cookies of the OAuth2 handshake are not built into this version',
  tls: 'this version serves and connects by the address given; TLS for clients belongs to a proxy before it',
  tracing: 'traces are not built into this version',
  userInterface: 'this version has no user interface of its own',
} satisfies Record<string, string>;

/** A feature that may be missing. */
export type Feature = 'authentication' | 'handshakeCookies' | 'tls' | 'tracing' | 'userInterface';

/** The note for keys of a feature: empty once the feature is there. */
export function unlessBuilt(feature: Feature): { readonly withoutEffect?: string } {
  const why = (pendingFeatures as Partial<Record<Feature, string>>)[feature];
  return why === undefined ? {} : { withoutEffect: why };
}
