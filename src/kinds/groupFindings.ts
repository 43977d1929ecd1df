import { groupWithoutEdgeSpaces } from '../model/cel.ts';
import type { ManifestFinding } from './resourceKind.ts';

/** Findings about the name of a routing group. @param field such as `spec.routingGroup` */
export function groupFindings(group: unknown, field: string): ManifestFinding[] {
  if (typeof group !== 'string' || !/\s/.test(group)) return [];
  const name = field.split('.').at(-1) ?? field;
  if (group !== group.trim()) {
    const [, problem] = groupWithoutEdgeSpaces(name);
    return [{ severity: 'problem', message: `${field}: ${problem}`, at: field }];
  }
  const message = `${field}: ${JSON.stringify(group)} holds a space; write the name as rules and headers do, best with - in its place`;
  return [{ severity: 'warning', message, at: field }];
}
