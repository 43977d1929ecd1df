/** A variable in the name of a group, replaced by a value of the query. */
const variable = /\$\{([a-zA-Z][a-zA-Z0-9]*)\}/g;

/** Variables in a group's name or path, in order. */
export function variablesOf(text: string): readonly string[] {
  return [...text.matchAll(variable)].map(([, name = '']) => name);
}

/** Returns the mistake in a group's name (Trino: `ResourceGroupNameTemplate`), or null. */
export function groupSegmentProblem(name: string): string | null {
  if (name.includes('.')) return 'must not hold a dot, which separates a group from its parent';
  if (/[${}]/.test(name.replaceAll(variable, ''))) {
    return `must hold $, { and } only in variables such as \${USER}`;
  }
  return controlProblem(name);
}

export function controlProblem(text: string): string | null {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what it looks for
  return /[\x00-\x1f\x7f]/.test(text) ? 'must not hold control characters' : null;
}

/**
 * Replaces the variables in a path of groups.
 * @returns its parts; or the variable without a value, or the part that would be empty
 */
export function expandedPath(
  path: string,
  values: ReadonlyMap<string, string>,
): { readonly parts: readonly string[] } | { readonly unresolved: string } | { readonly emptyPart: string } {
  const parts: string[] = [];
  for (const part of path.split('.')) {
    const unresolved = variablesOf(part).find((name) => !values.has(name));
    if (unresolved !== undefined) return { unresolved };
    const text = part.replaceAll(variable, (_, name: string) => values.get(name) ?? '');
    if (text === '') return { emptyPart: part };
    parts.push(text);
  }
  return { parts };
}
