import { checkGroupsFile } from '../model/groupsFile/groupsFile.ts';
import type { Finding } from './manifestCheck.ts';
import { SourceDocument } from './sourceDocument.ts';

/** Whether a text is a file of the engine's file-based resource group manager, also one with mistakes. */
export function looksLikeGroupsFile(text: string): boolean {
  return /^\s*\{/.test(text) && /"(?:rootGroups|cpuQuotaPeriod)"\s*:/.test(text);
}

/** Checks a file of the engine's file-based resource group manager (docs/resource-groups.md#checking-a-file). */
export function checkGroupsFileText(
  path: string,
  text: string,
): { readonly problems: readonly Finding[]; readonly warnings: readonly Finding[] } {
  const at = { path, document: 1, rule: null };
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const { message } = error as SyntaxError;
    const [, line = '1', column = '1'] = /line (\d+) column (\d+)/.exec(message) ?? [];
    return {
      problems: [{ ...at, line: Number(line), column: Number(column), message: `is not JSON: ${message}` }],
      warnings: [],
    };
  }
  const { problems, warnings } = checkGroupsFile(value);
  const source = new SourceDocument(text, 1);
  const placed = ({ field, message }: { readonly field: string; readonly message: string }): Finding => ({
    ...at,
    ...source.placeOf(field),
    message: `${field} ${message}`,
  });
  return { problems: problems.map(placed), warnings: warnings.map(placed) };
}
