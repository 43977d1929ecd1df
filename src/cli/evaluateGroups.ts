import { readFile } from 'node:fs/promises';
import { productNamedIn } from '../config/referenceNames.ts';
import { parseDescribedRequest } from '../gateway/analysis/describedRequest.ts';
import type { GroupsFile } from '../model/groupsFile/storedGroups.ts';
import { type ProductNames, productNames } from '../model/names.ts';
import { firstHeader, headerValues } from '../model/rawHeaders.ts';
import type { RuleRequest } from '../rules/decision.ts';
import { type GroupCriteria, type GroupSelection, selectGroup } from '../rules/groupSelection.ts';
import { groupsOfText } from './groupsFileCheck.ts';
import { type CliIo, exitCodes } from './io.ts';
import { offlineRequests } from './offlineRequests.ts';

/** Options of `evaluate --resource-groups` in addition to the two files. */
export interface GroupEvaluation {
  readonly product?: string | undefined;
  readonly groups?: string | undefined;
  readonly json?: boolean | undefined;
}

/**
 * Prints the resource group that an engine chooses for a request (docs/resource-groups.md#which-group-takes-a-query).
 * @param path a file of the engine's file-based manager, or a manifest of resource groups
 * @param description the request as JSON
 * @returns exit code
 */
export async function evaluateGroups(
  path: string,
  { path: requestPath, description }: { readonly path: string; readonly description: unknown },
  options: GroupEvaluation,
  io: CliIo,
): Promise<number> {
  const text = await readFile(path, 'utf8').catch((error: Error) => error);
  if (typeof text !== 'string') {
    io.stderr.write(`${path}: error: ${text.message}\n`);
    return exitCodes.failure;
  }
  const { file, problems } = groupsOfText(path, text);
  for (const { line, column, rule, message } of problems) {
    io.stderr.write(`${path}:${line}:${column}: error: ${rule === null ? '' : `${rule}: `}${message}\n`);
  }
  const checked = parseDescribedRequest(description);
  if (!checked.ok) {
    for (const { field, message } of checked.problems) io.stderr.write(`${requestPath}: error: ${field} ${message}\n`);
  }
  if (file === null || !checked.ok) return exitCodes.failure;
  const names = productNames(options.product ?? productNamedIn(JSON.stringify(description)) ?? 'Engine');
  const request = offlineRequests(names, true)(checked.value);
  const user = request.user?.user ?? null;
  if (user === null) {
    io.stderr.write(`${requestPath}: error: the request names no user: give it the header ${names.header('User')}\n`);
    return exitCodes.failure;
  }
  const selection = await selectGroup(file.selectors, criteriaOf(user, request, names, options.groups ?? ''));
  io.stdout.write(options.json === true ? `${JSON.stringify(selection, null, 2)}\n` : readable(file, selection));
  return exitCodes.success;
}

function criteriaOf(user: string, request: RuleRequest, names: ProductNames, groups: string): GroupCriteria {
  const header = (suffix: string) => firstHeader(request.headers, names.headerKey(suffix)) ?? null;
  const originalUser = header('Original-User') ?? user;
  const estimates = new Map(
    headerValues(request.headers, names.headerKey('Resource-Estimate'))
      .flatMap(listed)
      .map((pair) => {
        const [name = '', ...value] = pair.split('=');
        return [name.trim().toUpperCase(), value.join('=').trim()];
      }),
  );
  return {
    user,
    originalUser,
    authenticatedUser: originalUser,
    groups: listed(groups),
    source: header('Source'),
    clientTags: headerValues(request.headers, names.headerKey('Client-Tags')).flatMap(listed),
    queryType: request.queryProperties?.resourceGroupQueryType || null,
    resourceEstimates: {
      executionTime: estimates.get('EXECUTION_TIME') ?? null,
      cpuTime: estimates.get('CPU_TIME') ?? null,
      peakMemory: estimates.get('PEAK_MEMORY') ?? null,
    },
  };
}

function listed(text: string): readonly string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}

function readable({ selectors }: GroupsFile, { results, group, message }: GroupSelection): string {
  const lines = [group === null ? message : `resource group ${group.join('.')} (${message})`];
  for (const [index, { outcome, message: why }] of results.entries()) {
    lines.push(`  ${outcome.padEnd(11)} selectors[${index}] ${selectors[index]?.group}: ${why}`);
  }
  return `${lines.join('\n')}\n`;
}
