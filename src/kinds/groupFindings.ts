import type { ManifestFinding } from './manifestFinding.ts';

/** What is to be said of the name of a routing group. @param field such as `spec.routingGroup` */
export function groupFindings(group: unknown, field: string): ManifestFinding[] {
  if (typeof group !== 'string' || !/\s/.test(group)) return [];
  const name = field.split('.').at(-1) ?? field;
  if (group !== group.trim()) {
    const message = `${field}: ${name} must not begin or end with a space: no header and no rule would name it`;
    return [{ severity: 'problem', message, at: field }];
  }
  const message = `${field}: ${JSON.stringify(group)} holds a space; write the name as rules and headers do, best with - in its place`;
  return [{ severity: 'warning', message, at: field }];
}
