/** Pages, logins and probes, whose clients cannot present a certificate. */
const open = /^\/(?:ui|oauth2|v1\/info|v1\/node)(?:\/|$)/;

/**
 * True if a proxied path requires the user of a client certificate: all but the engines' web pages, logins and probes.
 * Further proxied paths are included.
 * @param path without dot segments, as sent
 */
export function isAuthenticated(path: string): boolean {
  return !open.test(path);
}
