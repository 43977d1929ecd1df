/**
 * A host name, `*.` and a name for everything below it, `*` for every host, or an address (IPv6 in brackets); and a
 * port.
 */
const form = /^(\*|(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?$/;

/** Form of the text in a resource; valid in RE2 too. */
export const HOST_PATTERN_FORM =
  '^([*]|([*][.])?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?$';

/** Default ports of the schemes, which URLs omit. */
const ports: Readonly<Record<string, string>> = { 'http:': '80', 'https:': '443' };

/** Returns the mistake in a pattern, with the valid forms, or null. */
export function hostPatternProblem(text: string): string | null {
  const port = form.exec(text.toLowerCase())?.[2];
  const isPort = port === undefined || (Number(port) >= 1 && Number(port) <= 65_535);
  return form.test(text.toLowerCase()) && isPort
    ? null
    : `must be a host such as trino.example, trino.example:8443 or *.trino.svc, not "${text}"`;
}

/**
 * True if the host of a URL matches one of the patterns: `trino.example` on any port, `trino.example:8443` on that one,
 * `*.trino.svc` for all names below trino.svc, `*` for all hosts. Invalid patterns match nothing.
 */
export function hostMatches(patterns: readonly string[], url: string): boolean {
  const parsed = URL.parse(url);
  if (parsed === null || parsed.hostname === '') return false;
  const host = parsed.hostname.replace(/\.$/, '');
  const hostPort = parsed.port === '' ? ports[parsed.protocol] : parsed.port;
  return patterns.some((pattern) => {
    const text = pattern.toLowerCase();
    const [, name, port] = hostPatternProblem(text) === null ? (form.exec(text) ?? []) : [];
    if (name === undefined || (port !== undefined && port !== hostPort)) return false;
    if (name === '*') return true;
    if (name.startsWith('*.')) return host.endsWith(name.slice(1)) && host.length > name.length - 1;
    return host === (name.startsWith('[') ? (URL.parse(`http://${name}`)?.hostname ?? name) : name);
  });
}

export function hostOf(url: string): string {
  return URL.parse(url)?.host ?? url;
}
