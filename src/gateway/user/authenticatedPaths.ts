/** Pages, logins and probes, whose clients cannot show a certificate. */
const open = /^\/(?:ui|oauth2|v1\/info|v1\/node)(?:\/|$)/;

/**
 * Whether requests for a proxied path are made in the name of a client certificate's user: all but those for the web pages,
 * logins and probes of engines. What is proxied under further paths belongs to them.
 * @param path without dot segments, as sent
 */
export function isAuthenticated(path: string): boolean {
  return !open.test(path);
}
