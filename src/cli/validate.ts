import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { text as readAll } from 'node:stream/consumers';
import { parseDocument } from 'yaml';
import type { GatewayConfig } from '../config/gatewayConfig.ts';
import { ENGINE_CLUSTER } from '../kinds/engineCluster/spec.ts';
import { ENGINE_TENANT } from '../kinds/engineTenant/spec.ts';
import { QUERY_LIMIT } from '../kinds/queryLimit/spec.ts';
import { resourceKinds } from '../kinds/registry.ts';
import { type ProgramSettings, type RoutingDraft, rejectionBy } from '../kinds/resourceKind.ts';
import { ROUTING_GROUP } from '../kinds/routingGroup/spec.ts';
import { ROUTING_RULE } from '../kinds/routingRule/spec.ts';
import { noServices, unreadServices } from '../kinds/serviceLookup.ts';
import { openAddresses } from '../model/clusterAddresses.ts';
import { productNames } from '../model/names.ts';
import { isRecord } from '../model/record.ts';
import type { ConditionDraft } from '../model/resource.ts';
import { gatewayClassOf, keyTextOf, type Resource } from '../model/resource.ts';
import { platformOf } from '../operator/operator.ts';
import { noPolicy } from '../routing/admissionPolicy.ts';
import { checkRulesFile } from '../rules/compile/checkRules.ts';
import { createRuleCompiler } from '../rules/compiler.ts';
import type { CompileContext } from '../rules/language/scope.ts';
import { openTenancy } from '../rules/tenancy.ts';
import { priorityOption, productOfRules, readConfigFiles, textsAt } from './configFile.ts';
import { command, configFlags, exitCodes } from './io.ts';
import { checkGroupsFileText, checkManifests, type Finding, looksLikeGroupsFile } from './manifestCheck.ts';
import { filesAt, holdsManifests } from './offlineRules.ts';
import { clusterAddresses, ruleCompilerOptions } from './settings.ts';

interface ValidateSettings {
  readonly context: CompileContext;
  readonly defaultPriority: number | undefined;
  readonly isStrict: boolean;
  readonly config: GatewayConfig;
  /** False: of `config`, which has the defaults, only what does not depend on a gateway applies. */
  readonly isConfigured: boolean;
  /** `resources.class`; null: any. */
  readonly gatewayClass: string | null;
  /** Text of the path `-`. */
  readonly input: string;
}

/** `validate`: checks manifests, rules files and files of resource groups, for pipelines. */
export const validateCommand = command<readonly string[]>({
  name: 'validate',
  description:
    'check manifests, rules files and files of resource groups: exit code 1 and file:line messages for mistakes',
  argument: ['<path...>', 'files, - for standard input, or directories whose .yaml, .yml and .json files are checked'],
  options: [
    [configFlags, 'configuration of the gateway that they are for: its class, namespaces, addresses and rules engine'],
    [
      '--product <name>',
      'product name of the objects in rules (protocol.productName); inferred from the names in the rules by default',
    ],
    ['--no-analysis', 'the gateway runs with requestAnalyzerConfig.analyzeRequest: false'],
    ['--class <name>', 'class of the gateway they are for (resources.class): warns of resources of others'],
    ['--strict', 'warnings count as mistakes'],
    ['--default-priority <number>', 'routingRules.defaultPriority'],
    ['--no-differences', 'say nothing of what rules mean here and not in Trino Gateway'],
  ],
  async run(options, io, paths) {
    const { analysis = true, differences = true, strict: isStrict = false } = options;
    const isConfigured = options.config !== undefined;
    const { config } = await readConfigFiles(options.config, io);
    const { protocol, requestAnalyzerConfig, routingRules, resources } = config;
    const defaultPriority = priorityOption(options.defaultPriority, io) ?? routingRules.defaultPriority ?? undefined;
    const input = paths.includes('-') ? await readAll(io.stdin as NodeJS.ReadStream) : '';
    const product = options.product ?? (isConfigured ? protocol.productName : undefined);
    const names = productNames(product ?? productOfRules([input, ...(await textsAt(paths))], io));
    const analyzeRequest = analysis && (!isConfigured || requestAnalyzerConfig.analyzeRequest);
    const differenceWarnings = differences && routingRules.differenceWarnings;
    const context = { names, analyzeRequest, differenceWarnings };
    const gatewayClass = options.class ?? resources.class;
    const settings = { context, defaultPriority, isStrict, config, isConfigured, gatewayClass, input };
    const { output, mistakes } = await validate(paths, settings);
    io.stdout.write(output);
    return mistakes === 0 ? exitCodes.success : exitCodes.failure;
  },
});

/** Findings in a file; null if it has nothing to check. */
interface FileCheck {
  readonly problems: readonly Finding[];
  readonly warnings: readonly Finding[];
  readonly named?: readonly NamedPlace[];
  readonly resources?: number;
  readonly rules?: number;
}

/** Checks files for `validate`: returns its output and the number of mistakes. */
async function validate(paths: readonly string[], settings: ValidateSettings) {
  const lines: string[] = [];
  let mistakes = 0;
  const mistake = (line: string): void => {
    mistakes += 1;
    lines.push(line);
  };
  const filesOf = new Map<string, readonly string[]>();
  for (const path of paths) {
    try {
      filesOf.set(path, path === '-' ? [path] : await filesAt(path));
    } catch (error) {
      const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT';
      mistake(`${path}: error: ${isMissing ? 'there is no such file or directory' : String(error)}`);
    }
  }
  const files = [...filesOf.values()].flat();
  const checks = new Map(
    await Promise.all(files.map(async (path) => [path, await checkFile(path, settings)] as const)),
  );
  const named = [...checks.values()].flatMap((check) => check?.named ?? []);
  const same = duplicates(named);
  const references = groupReferenceFindings(named);
  const findings = refusalFindings(named, settings);
  const [rejections, cautions] = [
    findings.filter(({ isWarning }) => !isWarning),
    findings.filter((each) => each.isWarning),
  ];
  for (const [path, check] of checks) {
    if (check === null) lines.push(`${path}: note: neither manifests nor rules nor resource groups; left out`);
    const ofFile = (finding: Finding): boolean => finding.path === path;
    const own = check?.problems ?? [];
    // What else is wrong with a mistaken resource shows once that is corrected.
    const others = rejections.filter(({ document }) => own.every((each) => each.document !== document));
    const problems = [...own, ...[...same.problems, ...others].filter(ofFile)];
    const warnings = [...(check?.warnings ?? []), ...[...same.warnings, ...references, ...cautions].filter(ofFile)];
    lines.push(...findingLines(problems, warnings));
    mistakes += problems.length + (settings.isStrict ? warnings.length : 0);
  }
  for (const [path, own] of filesOf) {
    if (own.some((file) => checks.get(file) != null)) continue;
    mistake(`${path}: error: no manifests, rules or resource groups are in it; correct the path`);
  }
  const sum = (count: 'resources' | 'rules') =>
    [...checks.values()].reduce((total, check) => total + (check?.[count] ?? 0), 0);
  const verdict = mistakes === 0 ? 'no mistakes' : `${mistakes} mistakes`;
  lines.push(`${files.length} files, ${sum('resources')} resources, ${sum('rules')} rules: ${verdict}`);
  return { output: lines.map((line) => `${line}\n`).join(''), mistakes };
}

async function checkFile(path: string, settings: ValidateSettings): Promise<FileCheck | null> {
  const { context, defaultPriority, gatewayClass, config, isConfigured, input } = settings;
  const text = path === '-' ? input : await readFile(path, 'utf8').catch(() => null);
  if (text !== null && holdsManifests(text)) {
    const namespace = isConfigured ? platformNamespace(config) : 'default';
    return checkManifests(path, text, context, gatewayClass, namespace, await kustomizeNamespace(path));
  }
  if (text !== null && looksLikeGroupsFile(text)) return checkGroupsFileText(path, text);
  if (text !== null && !looksLikeRules(text)) return null;
  const { documents, problems, warnings } = checkRulesFile({ path, text, defaultPriority }, context);
  const named = documents.map(({ rule, document, place }) => ({
    ...{ path, name: rule.name, document, ...place },
    resource: null,
  }));
  return { problems, warnings, named, rules: documents.length };
}

function looksLikeRules(text: string): boolean {
  return (
    /^\s*[{,]?\s*["']?(?:condition|actions|priority)["']?\s*:/m.test(text) ||
    text.replace(/^\s*(?:#.*|---.*)?$/gm, '').trim() === ''
  );
}

function findingLines(problems: readonly Finding[], warnings: readonly Finding[]): readonly string[] {
  return [
    ...problems.map((problem) => ({ ...problem, kind: 'error' })),
    ...warnings.map((warning) => ({ ...warning, kind: 'warning' })),
  ]
    .sort((a, b) => a.line - b.line || a.column - b.column)
    .map(({ path, line, column, kind, rule, message }) => {
      const subject = rule === null ? '' : `${rule}: `;
      return `${path}:${line}:${column}: ${kind}: ${subject}${message}`;
    });
}

/**
 * Checks the manifests directory and the rules file of a configuration as `validate` does.
 * @returns its output if there are mistakes, else null
 */
export async function resourceMistakes(config: GatewayConfig): Promise<string | null> {
  const { resources, routingRules, protocol } = config;
  const { rulesConfigPath, rulesType, defaultPriority } = routingRules;
  const paths = resources.source === 'directory' && resources.directory !== null ? [resources.directory] : [];
  // A rules file may be created later; the gateway follows its path.
  if (rulesType === 'FILE' && rulesConfigPath !== null && existsSync(rulesConfigPath)) paths.push(rulesConfigPath);
  if (paths.length === 0) return null;
  const context = {
    names: productNames(protocol.productName),
    // Rules that need the analysis are not mistakes of their files.
    analyzeRequest: true,
    differenceWarnings: routingRules.differenceWarnings,
  };
  const settings = {
    context,
    defaultPriority: defaultPriority ?? undefined,
    isStrict: false,
    config,
    isConfigured: false,
    gatewayClass: null,
    input: '',
  };
  const { output, mistakes } = await validate(paths, settings);
  return mistakes === 0 ? null : output;
}

/** Namespace of the gateway, and of resources that name none. */
function platformNamespace({ resources }: GatewayConfig): string {
  const { writeNamespace, namespace, namespaces } = resources;
  return writeNamespace ?? (namespace === '*' ? null : namespace) ?? namespaces[0] ?? 'default';
}

/** `namespace` of the kustomization next to a file: Kustomize gives it to all resources. Null: missing. */
async function kustomizeNamespace(path: string): Promise<string | null> {
  for (const name of path === '-' ? [] : ['kustomization.yaml', 'kustomization.yml', 'Kustomization']) {
    const text = await readFile(join(dirname(path), name), 'utf8').catch(() => null);
    const value: unknown = text === null ? null : parseDocument(text, { logLevel: 'silent' }).get('namespace');
    if (typeof value === 'string') return value;
  }
  return null;
}

/**
 * Finds resources that the gateway would not accept. Without a configuration only conflicts and grants of tenants are known, and
 * addresses that a configuration would have to allow are warnings.
 */
function refusalFindings(places: readonly NamedPlace[], settings: ValidateSettings) {
  const { isConfigured, gatewayClass } = settings;
  const isPlaced = (place: NamedPlace): place is ResourcePlace => place.resource !== null;
  const byClass = Map.groupBy(places.filter(isPlaced), ({ resource }) => gatewayClassOf(resource.spec));
  return [...byClass].flatMap(([ofClass, ofFiles]) => {
    if (isConfigured && ofClass !== gatewayClass) return [];
    const byKey = new Map(ofFiles.map((place) => [keyTextOf(place.resource), place]));
    const resources = [...byKey.values()].map(({ resource }) => resource);
    const tenants = resources.filter(({ kind }) => kind === ENGINE_TENANT);
    const isSelecting = tenants.some(({ spec }) => 'selector' in Object(spec.namespaces));
    const reported = !isConfigured ? /(NotGranted|Conflict|^AddressNotAllowed)$/ : isSelecting ? /^(?!NoTenant)/ : /^/;
    const rejected = rejectionsOf(resources, settings);
    // It is not known which namespaces of no tenant are the platform's: their names are compared as if all were.
    const unowned = resources.filter((each) => {
      const reason = rejected.get(keyTextOf(each))?.reason ?? 'NoTenant';
      return each.kind !== ENGINE_TENANT && reason === 'NoTenant';
    });
    const all = isConfigured ? rejected : new Map([...rejected, ...rejectionsOf(unowned, settings)]);
    return [...all].flatMap(([key, { reason, message }]) => {
      const place = byKey.get(key);
      if (place === undefined || !reported.test(reason)) return [];
      const field = /^spec[\w.[\]]*/.exec(message)?.[0];
      const at = field === undefined ? place : { ...place, ...place.placeOf?.(field) };
      return [{ ...finding(at, message), isWarning: !isConfigured && reason === 'AddressNotAllowed' }];
    });
  });
}

/** Reasons for which resources would not be accepted, by their key. */
function rejectionsOf(all: readonly Resource[], settings: ValidateSettings): ReadonlyMap<string, ConditionDraft> {
  const resources = Map.groupBy(all, ({ kind }) => kind);
  const draft: RoutingDraft = {
    ...{ rows: [], resources, tenancy: openTenancy, clusters: [], admission: noPolicy, rules: null },
  };
  const program = programSettings(settings);
  const rejections = resourceKinds.all.flatMap((kind) =>
    [...kind.program(program).refresh(resources.get(kind.kind) ?? [], draft)].flatMap(([key, outcome]) => {
      const rejection = rejectionBy(kind, outcome);
      return rejection === undefined ? [] : [[key, rejection] as const];
    }),
  );
  return new Map(rejections);
}

/** Settings of a gateway as configured; Services, Secrets and labels of a cluster are unknown. */
function programSettings({ config, isConfigured, context }: ValidateSettings): ProgramSettings {
  const { resources, routing } = config;
  const compiler = createRuleCompiler({ ...ruleCompilerOptions(config), ...context, monotonic: () => 0 });
  return {
    rules: { compiler, file: null },
    services: unreadServices(noServices),
    allowedServiceNamespaces: resources.allowedServiceNamespaces,
    defaultRoutingGroup: routing.defaultRoutingGroup,
    // Without a configuration it is not known where the gateway runs, and so loopback.
    addresses: isConfigured ? clusterAddresses(config) : openAddresses,
    platform: isConfigured ? platformOf(resources, platformNamespace(config)) : { namespace: '', areSeveral: false },
    discoveries: { report: () => null },
  };
}

export interface NamedPlace {
  readonly path: string;
  readonly document: number;
  readonly line: number;
  readonly column: number;
  readonly name: string;
  /** Null: a rule of a rules file. */
  readonly resource: Resource | null;
  /** Position of a field of the resource. */
  readonly placeOf?: (field: string) => { readonly line: number; readonly column: number };
}

/** Finds resources that occur twice, and rules with the name of another one. */
function duplicates(places: readonly NamedPlace[]) {
  return {
    problems: conflicts(places.filter((place): place is ResourcePlace => place.resource !== null)),
    warnings: sameRules(places.filter(({ resource }) => resource === null || resource.kind === ROUTING_RULE)),
  };
}

type ResourcePlace = NamedPlace & { readonly resource: Resource };

/** Resources that occur twice. */
function conflicts(places: readonly ResourcePlace[]): readonly Finding[] {
  const first = new Map<string, ResourcePlace>();
  return places.flatMap((place) => {
    const before = first.getOrInsert(keyTextOf(place.resource), place);
    const { kind, metadata } = place.resource;
    const what = `${kind} ${metadata.namespace}/${metadata.name}`;
    const message = `${what} is in ${where(before)} too; delete one of the two, or set another metadata.name`;
    return before === place ? [] : [finding(place, message)];
  });
}

/** Rules of a rules file with the name of another rule: both are evaluated. */
function sameRules(places: readonly NamedPlace[]): readonly Finding[] {
  const findings: Finding[] = [];
  const first = new Map<string, NamedPlace>();
  for (const place of places) {
    const before = first.get(place.name);
    if (before === undefined) first.set(place.name, place);
    else if (before.resource === null || place.resource === null) {
      const message = `the rule ${where(before)} has this name too: both are asked, REST changes neither, and traces and metrics show them as one; give one another name`;
      findings.push(finding(place, message));
    }
  }
  return findings;
}

function where({ path, line }: NamedPlace): string {
  return `${path}:${line}`;
}

function finding({ path, document, line, column, name }: NamedPlace, message: string): Finding {
  return { path, document, line, column, rule: name, message };
}

/**
 * Finds routing groups that resources name and that have no cluster. Empty if no file has a cluster: they are declared
 * elsewhere.
 */
function groupReferenceFindings(places: readonly NamedPlace[]): readonly Finding[] {
  const resources = places.filter((place): place is ResourcePlace => place.resource !== null);
  // Gateways of different classes do not see each other's resources.
  const byClass = Map.groupBy(resources, ({ resource }) => gatewayClassOf(resource.spec));
  return [...byClass.values()].flatMap((ofClass) => {
    const of = (kind: string) => ofClass.filter(({ resource }) => resource.kind === kind);
    const withClusters = new Set(of(ENGINE_CLUSTER).flatMap((place) => texts([specOf(place).routingGroup])));
    if (withClusters.size === 0) return [];
    const fallbacks = new Map(of(ROUTING_GROUP).map((place) => [place.name, texts(specOf(place).fallbacks)]));
    const isServed = (group: string): boolean =>
      // Surrounding white space is reported as a mistake of the name.
      group !== group.trim() || [group, ...(fallbacks.get(group) ?? [])].some((each) => withClusters.has(each));
    return ofClass.flatMap((place) => {
      const absent = (field: string, group: string): Finding => {
        const problem = `no cluster of these files belongs to the routing group ${group}`;
        return finding(place, `${field}: ${problem}; correct the name, or add one`);
      };
      const spec = specOf(place);
      switch (place.resource.kind) {
        case ROUTING_GROUP: {
          const ofFallbacks = texts(spec.fallbacks).flatMap((group, index) =>
            withClusters.has(group) ? [] : [absent(`spec.fallbacks[${index}]`, group)],
          );
          return isServed(place.name) || ofFallbacks.length > 0 ? ofFallbacks : [absent('spec', place.name)];
        }
        case QUERY_LIMIT:
          return matchesOf(isRecord(spec.match) ? spec.match.routingGroups : []).flatMap(({ type, value }, index) =>
            (type ?? 'Exact') !== 'Exact' || typeof value !== 'string' || isServed(value)
              ? []
              : [absent(`spec.match.routingGroups[${index}].value`, value)],
          );
        case ROUTING_RULE:
          return texts([isRecord(spec.routeTo) ? spec.routeTo.routingGroup : undefined]).flatMap((group) =>
            isServed(group) ? [] : [absent('spec.routeTo.routingGroup', group)],
          );
        default:
          return [];
      }
    });
  });
}

function specOf({ resource }: ResourcePlace): Readonly<Record<string, unknown>> {
  return resource.spec as Readonly<Record<string, unknown>>;
}

function matchesOf(value: unknown): readonly Readonly<Record<string, unknown>>[] {
  return Array.isArray(value) ? value.map((each: unknown) => (isRecord(each) ? each : {})) : [];
}

function texts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}
