/**
 * True if a path is one of the statement paths. Ignores path parameters (`;x=1`) and a trailing slash, because the
 * engine accepts such a POST as a submission too (docs/protocol.md#submissions).
 * @param path as sent, without the query string
 * @param statementPaths such as `/v1/statement`, without a trailing slash
 */
export function isStatementPath(path: string, statementPaths: readonly string[]): boolean {
  if (statementPaths.includes(path)) return true;
  if (!path.includes(';') && !path.endsWith('/')) return false;
  const plain = path
    .split('/')
    .map((segment) => {
      const parameters = segment.indexOf(';');
      return parameters < 0 ? segment : segment.slice(0, parameters);
    })
    .join('/');
  return statementPaths.includes(plain.endsWith('/') ? plain.slice(0, -1) : plain);
}
