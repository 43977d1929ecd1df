import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { type Differences, nameOf, type RestCall } from './restCall.ts';

/** Differences that have the same reason. */
interface Reason {
  readonly reason: string;
  readonly differences: readonly {
    /** Differences by the part of the answer: there and here. */
    readonly differs: Differences;
    /** The database that it is limited to. */
    readonly database?: string;
    /** Names of calls. */
    readonly calls: readonly string[];
  }[];
}

/**
 * The documented differences of calls of a release, by their name (test/migration/differences.yaml).
 * @throws for a call that is listed twice, or that nothing sends
 */
export function listedDifferences(
  release: number,
  database: string,
  sent: readonly RestCall[],
): Readonly<Record<string, Differences>> {
  const text = readFileSync(join(import.meta.dirname, 'differences.yaml'), 'utf8');
  const listed: Record<string, Differences> = {};
  for (const { differences } of (parse(text) as Readonly<Record<string, readonly Reason[]>>)[`release ${release}`] ??
    []) {
    for (const { differs, calls, database: only } of differences) {
      if (only !== undefined && only !== database) continue;
      for (const call of calls) {
        if (call in listed) throw new Error(`differences.yaml has ${call} twice`);
        listed[call] = differs;
      }
    }
  }
  const names = new Set(sent.map(nameOf));
  return Object.fromEntries(Object.entries(listed).filter(([call]) => names.has(call)));
}
