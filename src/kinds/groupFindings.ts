import type { ManifestFinding } from './resourceKind.ts';

/** Mistakes in the name of a routing group, in addition to its form; null if nothing is. */
export function groupNameProblem(name: unknown): string | null {
  return typeof name === 'string' && name !== name.trim()
    ? 'must not begin or end with a space: no header and no rule would name it'
    : null;
}

/** Findings about the name of a routing group. @param field such as `spec.routingGroup` */
export function groupFindings(group: unknown, field: string): ManifestFinding[] {
  if (typeof group !== 'string' || !/\s/.test(group)) return [];
  const name = field.split('.').at(-1) ?? field;
  const problem = groupNameProblem(group);
  if (problem !== null) return [{ severity: 'problem', message: `${field}: ${name} ${problem}`, at: field }];
  const message = `${field}: ${JSON.stringify(group)} holds a space; write the name as rules and headers do, best with - in its place`;
  return [{ severity: 'warning', message, at: field }];
}
