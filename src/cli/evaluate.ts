import { readFile } from 'node:fs/promises';
import { text as readAll } from 'node:stream/consumers';
import type { RuleEffect } from '../api/responses/routing.ts';
import type { MappedUsers } from '../gateway/user/userMapping.ts';
import { GatewayError } from '../model/errors.ts';
import type { GroupsFile } from '../model/groupsFile/storedGroups.ts';
import { firstHeader, headerValues } from '../model/http.ts';
import { type ProductNames, productNames } from '../model/names.ts';
import { type ExplainedRouting, routingOf } from '../routing/explanation.ts';
import { GroupRouter } from '../routing/groupRouter.ts';
import { emptyTable } from '../routing/routingTable.ts';
import type { RuleRequest } from '../rules/decision.ts';
import { type GroupCriteria, type GroupSelection, selectGroup } from '../rules/groupSelection.ts';
import { priorityOption, productNamedIn, productOfRules, textsAt } from './configFile.ts';
import { type CliIo, type CommandLine, command, convertLines, exitCodes, fail } from './io.ts';
import { groupsOfText } from './manifestCheck.ts';
import { describedRequestOf, offlineMapping, offlineRequests, offlineRules } from './offlineRules.ts';
import { evaluateCase, type RuleCase } from './ruleCases.ts';

/** `evaluate`: applies rules, or a file of resource groups, to a request. */
export const evaluateCommand = command({
  name: 'evaluate',
  description: 'show what rules decide for a request, or which resource group takes it, without sending anything',
  options: [
    ['--rules <path>', 'the rules: a rules file, manifests, or a directory of manifests'],
    ['--resource-groups <file>', "in place of rules: a file of the engine's resource groups, or a manifest of them"],
    ['--groups <names>', 'groups of the user, with commas; for --resource-groups'],
    [
      '--request <file>',
      'the request as JSON: method, path, headers, body, remoteAddr, user, mapUser, groups; - for standard input',
    ],
    ['--user-mapping <file>', 'rules for the names of users, as userMapping.file; for --rules'],
    [
      '--product <name>',
      'product name in headers and rules (protocol.productName); inferred from the names in the rules by default',
    ],
    ['--no-analysis', 'as with requestAnalyzerConfig.analyzeRequest: false'],
    ['--default-group <group>', 'routing.defaultRoutingGroup', 'adhoc'],
    ['--default-priority <number>', 'routingRules.defaultPriority'],
    ['--json', 'print JSON'],
    ['--cases', 'read expressions and rules files as JSON lines from standard input, write one result a line'],
  ],
  async run(options, io) {
    if (options.cases === true) return await convertLines<RuleCase>(io, evaluateCase);
    const { rules, resourceGroups, request } = options;
    if (request !== undefined && rules !== undefined && resourceGroups === undefined)
      return await evaluate(rules, request, options, io);
    if (request !== undefined && rules === undefined && resourceGroups !== undefined)
      return await evaluateGroups(resourceGroups, request, options, io);
    const usage = 'engine-gateway evaluate --rules rules.yaml --request request.json, or --resource-groups FILE';
    return fail(io, `error: ${usage} in place of --rules`, exitCodes.usage);
  },
});

async function evaluate(rulesPath: string, requestPath: string, options: CommandLine, io: CliIo): Promise<number> {
  const { analysis: analyzeRequest = true, defaultGroup = '' } = options;
  const names = productNames(options.product ?? productOfRules(await textsAt([rulesPath]), io));
  const defaultPriority = priorityOption(options.defaultPriority, io);
  const rules = await offlineRules(rulesPath, { names, analyzeRequest, defaultPriority }, io);
  const described = describedRequestOf(requestPath, await readDescription(requestPath, io), io);
  const mapping = await readMapping(options.userMapping, io);
  const request = offlineRequests(names, analyzeRequest, { mapping })(described);
  if (options.json === true) {
    const { mapping: { from } = { from: undefined }, rejection } = request.user ?? {};
    const decision = {
      ...rules?.decide(request),
      ...(from === undefined ? {} : { userMapping: { from } }),
      ...(rejection === undefined ? {} : { refused: rejection }),
    };
    io.stdout.write(`${JSON.stringify(decision, null, 2)}\n`);
  } else {
    const chain = new GroupRouter(names, defaultGroup);
    io.stdout.write(readable(await routingOf(chain, request, { ...emptyTable, rules }), request));
  }
  return exitCodes.success;
}

/** The user mapping of a file; null without one. */
async function readMapping(file: string | undefined, io: CliIo): Promise<MappedUsers | null> {
  if (file === undefined) return null;
  return await offlineMapping({ pattern: null, file }).catch((error: unknown) => {
    if (!(error instanceof GatewayError)) throw error;
    return fail(io, `error: ${error.message.replace('userMapping.file', '--user-mapping')}`);
  });
}

async function readDescription(path: string, io: CliIo): Promise<unknown> {
  try {
    return JSON.parse(path === '-' ? await readAll(io.stdin as NodeJS.ReadStream) : await readFile(path, 'utf8'));
  } catch (error) {
    return fail(io, `${path}: error: ${(error as Error).message}`);
  }
}

function readable({ decision, refused }: ExplainedRouting, request: RuleRequest): string {
  const lines: string[] = [];
  const { group, cluster, rule, decidedBy } = decision;
  const rejection = request.user?.rejection;
  if (rejection !== undefined) lines.push(`refused: ${rejection}`);
  else if (refused !== null) lines.push(`denied by ${refused.rule}: ${refused.refusal.message}`);
  else if (cluster !== null) lines.push(`cluster ${cluster} (rule ${rule})`);
  else if (decidedBy === 'default') lines.push(`routing group ${group} (default: no rule set one)`);
  else lines.push(`routing group ${group} (rule ${rule})`);
  const properties = request.queryProperties;
  if (request.user !== null) {
    const { user, mapping, membership } = request.user;
    const groups = membership?.groups ?? [];
    const before = mapping === undefined ? '' : `, mapped from ${mapping.from}`;
    lines.push(`user: ${user ?? 'none'}${before}${groups.length === 0 ? '' : ` in ${groups.join(', ')}`}`);
  }
  if (properties !== null && properties.errorMessage !== null) lines.push(`statement: ${properties.errorMessage}`);
  else if (properties !== null && properties.queryType !== '') {
    const tables = properties.tables.map((parts) => parts.join('.')).join(', ');
    lines.push(`statement: ${properties.queryType}${tables === '' ? '' : ` of ${tables}`}`);
  }
  return `${[...lines, ...ruleLines(decision.trace.rules)].join('\n')}\n`;
}

/** A line of each rule: its outcome and its results. */
export function ruleLines(rules: readonly Pick<RuleEffect, 'outcome' | 'rule' | 'put' | 'error'>[]): readonly string[] {
  return rules.map(({ outcome, rule, put, error }) => {
    const text = put === undefined ? '' : ` ${JSON.stringify(put)}`;
    return `  ${outcome.padEnd(11)} ${rule}${text}${error === undefined ? '' : `: ${error}`}`;
  });
}

/** Prints the resource group that an engine chooses for a request (docs/resource-groups.md#which-group-takes-a-query). */
async function evaluateGroups(path: string, requestPath: string, options: CommandLine, io: CliIo): Promise<number> {
  const description = await readDescription(requestPath, io);
  const text = await readFile(path, 'utf8').catch((error: Error) => fail(io, `${path}: error: ${error.message}`));
  const { file, problems } = groupsOfText(path, text);
  for (const { line, column, rule, message } of problems) {
    io.stderr.write(`${path}:${line}:${column}: error: ${rule === null ? '' : `${rule}: `}${message}\n`);
  }
  const described = describedRequestOf(requestPath, description, io);
  if (file === null) fail(io, []);
  const names = productNames(options.product ?? productNamedIn(JSON.stringify(description)) ?? 'Engine');
  const request = offlineRequests(names, true)(described);
  const user = request.user?.user ?? null;
  if (user === null)
    fail(io, `${requestPath}: error: the request names no user: give it the header ${names.header('User')}`);
  const selection = await selectGroup(file.selectors, criteriaOf(user, request, names, options.groups ?? ''));
  io.stdout.write(options.json === true ? `${JSON.stringify(selection, null, 2)}\n` : readableGroup(file, selection));
  return exitCodes.success;
}

function criteriaOf(user: string, request: RuleRequest, names: ProductNames, groups: string): GroupCriteria {
  const header = (suffix: string) => firstHeader(request.headers, names.headerKey(suffix)) ?? null;
  const list = (suffix: string) => headerValues(request.headers, names.headerKey(suffix)).flatMap(listed);
  const originalUser = header('Original-User') ?? user;
  const estimates = new Map(
    list('Resource-Estimate').map((pair) => {
      const [name = '', ...value] = pair.split('=');
      return [name.trim().toUpperCase(), value.join('=').trim()];
    }),
  );
  return {
    ...{ user, originalUser, authenticatedUser: originalUser, groups: listed(groups) },
    source: header('Source'),
    clientTags: list('Client-Tags'),
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

function readableGroup({ selectors }: GroupsFile, { results, group, message }: GroupSelection): string {
  const lines = [group === null ? message : `resource group ${group.join('.')} (${message})`];
  for (const [index, { outcome, message: why }] of results.entries()) {
    lines.push(`  ${outcome.padEnd(11)} selectors[${index}] ${selectors[index]?.group}: ${why}`);
  }
  return `${lines.join('\n')}\n`;
}
