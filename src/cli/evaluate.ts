import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { Command } from 'commander';
import { parseDescribedRequest } from '../gateway/analysis/describedRequest.ts';
import type { MappedUsers } from '../gateway/user/mappedUsers.ts';
import { GatewayError } from '../model/errors.ts';
import { productNames } from '../model/names.ts';
import { type ExplainedRouting, routingOf } from '../routing/explanation.ts';
import { GroupRouter } from '../routing/groupRouter.ts';
import { emptyTable } from '../routing/routingTable.ts';
import { userRefusal } from '../routing/userRefusal.ts';
import type { RuleRequest } from '../rules/decision.ts';
import { evaluateGroups } from './evaluateGroups.ts';
import { type CliIo, type CommandFactory, exitCodes } from './io.ts';
import { offlineMapping, offlineRequests } from './offlineRequests.ts';
import { offlineRules } from './offlineRules.ts';
import { PRIORITY_MISTAKE, priorityOption } from './priorityOption.ts';
import { productOfRules } from './productName.ts';
import { evaluateCase, type RuleCase } from './ruleCases.ts';

interface EvaluateOptions {
  readonly cases?: boolean;
  readonly rules?: string;
  readonly resourceGroups?: string;
  readonly groups?: string;
  readonly request?: string;
  readonly userMapping?: string;
  readonly product?: string;
  readonly analysis: boolean;
  readonly defaultGroup: string;
  readonly json?: boolean;
  readonly defaultPriority?: string;
}

/** `evaluate`: applies rules, or a file of resource groups, to a request. */
export const evaluateCommand: CommandFactory = (io, finish) =>
  new Command('evaluate')
    .description('show what rules decide for a request, or which resource group takes it, without sending anything')
    .option('--rules <path>', 'the rules: a rules file, manifests, or a directory of manifests')
    .option(
      '--resource-groups <file>',
      "in place of rules: a file of the engine's resource groups, or a manifest of them",
    )
    .option('--groups <names>', 'groups of the user, with commas; for --resource-groups')
    .option(
      '--request <file>',
      'the request as JSON: method, path, headers, body, remoteAddr, user, mapUser, groups; - for standard input',
    )
    .option('--user-mapping <file>', 'rules for the names of users, as userMapping.file; for --rules')
    .option(
      '--product <name>',
      'product name in headers and rules (protocol.productName); inferred from the names in the rules by default',
    )
    .option('--no-analysis', 'as with requestAnalyzerConfig.analyzeRequest: false')
    .option('--default-group <group>', 'routing.defaultRoutingGroup', 'adhoc')
    .option('--default-priority <number>', 'routingRules.defaultPriority')
    .option('--json', 'print JSON')
    .option('--cases', 'read expressions and rules files as JSON lines from standard input, write one result a line')
    .action(async (options: EvaluateOptions) => {
      if (options.cases === true) return finish(await answerCases(io));
      const { rules, resourceGroups, request } = options;
      if ((rules === undefined) === (resourceGroups === undefined) || request === undefined) {
        io.stderr.write(
          'error: engine-gateway evaluate --rules rules.yaml --request request.json, or --resource-groups FILE in place of --rules\n',
        );
        return finish(exitCodes.usage);
      }
      if (resourceGroups !== undefined) {
        const description = await readDescription(request, io);
        if (description === null) return finish(exitCodes.failure);
        return finish(await evaluateGroups(resourceGroups, { path: request, description }, options, io));
      }
      finish(await evaluate(rules as string, request, options, io));
    });

async function evaluate(rulesPath: string, requestPath: string, options: EvaluateOptions, io: CliIo): Promise<number> {
  const names = productNames(options.product ?? (await productOfRules([rulesPath], io)));
  const defaultPriority = priorityOption(options.defaultPriority);
  if (defaultPriority === null) {
    io.stderr.write(PRIORITY_MISTAKE);
    return exitCodes.usage;
  }
  const ruleSet = await offlineRules(rulesPath, { names, analyzeRequest: options.analysis, defaultPriority }, (line) =>
    io.stderr.write(`${line}\n`),
  );
  if (ruleSet === null) return exitCodes.failure;
  const description = await readDescription(requestPath, io);
  if (description === null) return exitCodes.failure;
  const checked = parseDescribedRequest(description);
  if (!checked.ok) {
    for (const { field, message } of checked.problems) io.stderr.write(`${requestPath}: error: ${field} ${message}\n`);
    return exitCodes.failure;
  }
  const mapping = await readMapping(options.userMapping, io);
  if (mapping === undefined) return exitCodes.failure;
  const request = offlineRequests(names, options.analysis, { mapping })(checked.value);
  if (options.json === true) {
    const { mapping: { from } = { from: undefined }, refusal } = request.user ?? {};
    const answer = {
      ...ruleSet.decide(request),
      ...(from === undefined ? {} : { userMapping: { from } }),
      ...(refusal === undefined ? {} : { refused: refusal }),
    };
    io.stdout.write(`${JSON.stringify(answer, null, 2)}\n`);
    return exitCodes.success;
  }
  const chain = new GroupRouter(names, options.defaultGroup);
  const table = { ...emptyTable, rules: ruleSet };
  io.stdout.write(readable(await routingOf(chain, request, table), request));
  return exitCodes.success;
}

/** The user mapping of a file; null without one, undefined if invalid. */
async function readMapping(file: string | undefined, io: CliIo): Promise<MappedUsers | null | undefined> {
  if (file === undefined) return null;
  try {
    return await offlineMapping({ pattern: null, file });
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    io.stderr.write(`error: ${error.message.replace('userMapping.file', '--user-mapping')}\n`);
    return undefined;
  }
}

async function readDescription(path: string, io: CliIo): Promise<unknown> {
  try {
    const text = path === '-' ? await readAll(io.stdin) : await readFile(path, 'utf8');
    return JSON.parse(text) as unknown;
  } catch (error) {
    io.stderr.write(`${path}: error: ${(error as Error).message}\n`);
    return null;
  }
}

async function readAll(stream: NodeJS.ReadableStream): Promise<string> {
  let text = '';
  for await (const chunk of stream) text += String(chunk);
  return text;
}

function readable({ decision, refused }: ExplainedRouting, request: RuleRequest): string {
  const lines: string[] = [];
  const { group, cluster, rule, decidedBy } = decision;
  const refusal = request.user === null ? null : userRefusal(request.user);
  if (refusal !== null) lines.push(`refused: ${refusal.message}`);
  else if (refused !== null) lines.push(`denied by ${refused.rule}: ${refused.refusal.message}`);
  else if (cluster !== null) lines.push(`cluster ${cluster} (rule ${rule})`);
  else if (decidedBy === 'default') lines.push(`routing group ${group} (default: no rule set one)`);
  else lines.push(`routing group ${group} (rule ${rule})`);
  const properties = request.queryProperties;
  if (request.user !== null) {
    const groups = request.user.membership?.groups ?? [];
    const inGroups = groups.length === 0 ? '' : ` in ${groups.join(', ')}`;
    const { mapping } = request.user;
    const before = mapping === undefined ? '' : `, mapped from ${mapping.from}`;
    lines.push(`user: ${request.user.user ?? 'none'}${before}${inGroups}`);
  }
  if (properties !== null && properties.errorMessage !== null) lines.push(`statement: ${properties.errorMessage}`);
  else if (properties !== null && properties.queryType !== '') {
    const tables = properties.tables.map((parts) => parts.join('.')).join(', ');
    lines.push(`statement: ${properties.queryType}${tables === '' ? '' : ` of ${tables}`}`);
  }
  for (const entry of decision.trace.rules) {
    const put = entry.put === undefined ? '' : ` ${JSON.stringify(entry.put)}`;
    lines.push(
      `  ${entry.outcome.padEnd(11)} ${entry.rule}${put}${entry.error === undefined ? '' : `: ${entry.error}`}`,
    );
  }
  return `${lines.join('\n')}\n`;
}

/** Writes a line with the case's id and its result for each line of standard input, in order. */
async function answerCases(io: CliIo): Promise<number> {
  let number = 0;
  for await (const text of createInterface({ input: io.stdin, crlfDelay: Number.POSITIVE_INFINITY })) {
    number += 1;
    if (text.trim() === '') continue;
    let line: RuleCase;
    try {
      line = JSON.parse(text) as RuleCase;
    } catch (error) {
      io.stderr.write(`error: line ${number} is not JSON: ${(error as Error).message}\n`);
      return exitCodes.failure;
    }
    io.stdout.write(`${JSON.stringify(evaluateCase(line))}\n`);
  }
  return exitCodes.success;
}
