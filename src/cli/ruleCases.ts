import { headerValues } from '../model/http.ts';
import { productNames } from '../model/names.ts';
import type { RequestUser } from '../model/requestUser.ts';
import { createRuleCompiler } from '../rules/compiler.ts';
import type { RuleDecision, RuleRequest } from '../rules/decision.ts';
import { Evaluation, EvaluationError } from '../rules/evaluation.ts';
import { compileProgram } from '../rules/language/program.ts';
import { CompileError, placeText } from '../rules/language/source.ts';
import { MAX_VALUE_DEPTH } from '../rules/limits.ts';
import { QueryObject, RequestObject, UserObject } from '../rules/requestObjects.ts';
import { JavaArray, JavaCollection, JavaList, JavaMap, JavaSet } from '../rules/values/collections.ts';
import { compareNatural } from '../rules/values/operators.ts';
import { javaText } from '../rules/values/text.ts';
import {
  JavaChar,
  JavaClass,
  JavaDouble,
  JavaFloat,
  JavaLong,
  JavaObject,
  JavaOptional,
  JavaSmallInt,
  kindOf,
  type Value,
} from '../rules/values/value.ts';
import type { QueryProperties } from '../sql/queryProperties.ts';

interface CaseRequest {
  readonly method: string;
  readonly path: string;
  readonly query?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  readonly remoteAddr?: string;
  readonly body?: string;
  readonly user?: string | null;
  readonly queryProperties?: CaseProperties;
}

/** Query properties in cases; missing ones are empty. */
type CaseProperties = { readonly [name: string]: unknown };

export interface RuleCase {
  readonly id: string;
  readonly kind: 'expression' | 'rules';
  readonly expr?: string;
  readonly vars?: {
    readonly request?: CaseRequest;
    readonly state?: Readonly<Record<string, unknown>>;
    readonly result?: Readonly<Record<string, unknown>>;
    readonly user?: string | null;
    readonly queryProperties?: CaseProperties;
    readonly analyzeRequest?: boolean;
  };
  readonly yaml?: string;
  readonly missingFile?: boolean;
  readonly analyzeRequest?: boolean;
  readonly requests?: readonly CaseRequest[];
}

export interface CaseResult {
  readonly id: string;
  readonly value?: unknown;
  readonly type?: string;
  readonly error?: string;
  readonly phase?: 'compile' | 'run';
  readonly state?: unknown;
  readonly result?: unknown;
  readonly requests?: readonly {
    readonly routingGroup: string | null;
    readonly errors: readonly string[];
    readonly fired: readonly string[];
  }[];
}

const names = productNames('Engine');

/** Evaluates one case: an expression, or a rules file against its requests. */
export function evaluateCase(line: RuleCase): CaseResult {
  return line.kind === 'expression' ? evaluateExpression(line) : evaluateRules(line);
}

function evaluateExpression(line: RuleCase): CaseResult {
  const { expr = '', vars = {}, id } = line;
  const objects = {
    request: new RequestObject(toRequest(vars.request ?? { method: 'POST', path: '/v1/statement' }, true), names),
    state: new JavaMap(),
    result: new JavaMap(),
    user: new UserObject({ user: vars.user ?? null, userInfo: null }),
    query: new QueryObject(toProperties(vars.queryProperties)),
  };
  const e = new Evaluation(objects);
  try {
    fillMap(objects.state, vars.state, e);
    fillMap(objects.result, vars.result, e);
    const program = compileProgram(expr, { names, analyzeRequest: vars.analyzeRequest !== false });
    const value = program.run(e);
    // Output has a separate budget: an expression may use up its own.
    const printing = new Evaluation(objects);
    return {
      id,
      value: valueJson(value, printing),
      type: typeOf(value),
      ...(vars.state === undefined ? {} : { state: valueJson(objects.state, printing) }),
      ...(vars.result === undefined ? {} : { result: valueJson(objects.result, printing) }),
    };
  } catch (error) {
    if (!(error instanceof CompileError || error instanceof EvaluationError)) throw error;
    const phase = error instanceof CompileError ? 'compile' : 'run';
    return { id, error: `${placeText(expr, error.offset ?? e.at)}: ${error.message}`, phase };
  }
}

function evaluateRules(line: RuleCase): CaseResult {
  const errors: string[] = [];
  const compiler = createRuleCompiler({
    names,
    rulesEngineEnabled: true,
    rulesType: 'FILE',
    analyzeRequest: line.analyzeRequest !== false,
    onRuleError: 'skip',
    onFileError: 'header',
    monotonic: () => 0,
  });
  const { ruleSet, fileProblems } = compiler.compile([], {
    path: 'rules.yaml',
    text: line.missingFile === true ? null : (line.yaml ?? null),
  });
  const load = fileProblems.map((problem) => `${problem.path}:${problem.line}:${problem.column}: ${problem.message}`);
  const requests = (line.requests ?? []).map((caseRequest) => {
    const request = toRequest(caseRequest, line.analyzeRequest !== false);
    const decision = ruleSet?.decide(request);
    const failed = (decision?.trace.rules ?? []).flatMap((entry) => (entry.error === undefined ? [] : [entry.error]));
    const header = headerValues(request.headers, names.headerKey('Routing-Group'))[0];
    return {
      routingGroup:
        (decision === undefined || decision.useHeader ? header : (decision.routingGroup ?? lastPut(decision))) ?? null,
      errors: [...errors, ...load, ...failed],
      fired: (decision?.trace.rules ?? []).filter((entry) => entry.outcome === 'fired').map((entry) => entry.rule),
    };
  });
  return { id: line.id, requests };
}

/** The last entry of the rules even if it is not a group: "" in place of null. */
function lastPut(decision: RuleDecision): string | null {
  const puts = decision.trace.rules.flatMap(({ put = {} }) => ('routingGroup' in put ? [put.routingGroup] : []));
  return puts.at(-1) ?? null;
}

function toRequest(request: CaseRequest, analyzed: boolean): RuleRequest {
  const headers = Object.entries(request.headers ?? {}).flatMap(([name, value]) =>
    (typeof value === 'string' ? [value] : value).flatMap((text) => [name, text.trim()]),
  );
  const host = headerValues(headers, 'host')[0] ?? 'gateway.example:8080';
  const length = request.body === undefined ? [] : ['Content-Length', String(Buffer.byteLength(request.body))];
  const types = headerValues(headers, 'content-type');
  const isForm = types.some((value) => value.startsWith('application/x-www-form-urlencoded'));
  const [serverName = '', port = '80'] = host.split(':');
  return {
    method: request.method,
    path: request.path,
    query: request.query ?? null,
    headers: [...headers, ...length],
    scheme: 'http',
    serverName,
    serverPort: Number(port),
    remoteAddr: request.remoteAddr ?? '127.0.0.1',
    remoteUser: null,
    formBody: isForm ? (request.body ?? null) : null,
    isSubmission: request.method === 'POST' && request.path.startsWith('/v1/statement'),
    user: analyzed ? ({ user: request.user ?? null, userInfo: null } satisfies RequestUser) : null,
    queryProperties: analyzed ? toProperties(request.queryProperties) : null,
  };
}

function toProperties(properties: CaseProperties = {}): QueryProperties {
  const optional = (name: string) => (typeof properties[name] === 'string' ? properties[name] : null);
  const text = (name: string): string => optional(name) ?? '';
  const list = (name: string): readonly string[] =>
    Array.isArray(properties[name]) ? (properties[name] as string[]) : [];
  return {
    errorMessage: optional('errorMessage'),
    isNewQuerySubmission: properties.isNewQuerySubmission === true,
    queryType: text('queryType'),
    resourceGroupQueryType: text('resourceGroupQueryType'),
    defaultCatalog: optional('defaultCatalog'),
    defaultSchema: optional('defaultSchema'),
    tables: list('tables').map((table) => tableParts(table)),
    catalogs: list('catalogs'),
    schemas: list('schemas'),
    catalogSchemas: list('catalogSchemas'),
    body: text('body'),
    queryId: optional('queryId'),
  };
}

/** Parts of a table's text; parts in the middle may contain dots. */
function tableParts(table: string | readonly string[]): readonly string[] {
  if (typeof table !== 'string') return table;
  const first = table.indexOf('.');
  const last = table.lastIndexOf('.');
  return [table.slice(0, first), table.slice(first + 1, last), table.slice(last + 1)].map((part) =>
    part.replace(/^"(.*)"$/, '$1'),
  );
}

/**
 * Adds values of a case's JSON to a map.
 * @throws EvaluationError if they are nested too deep or are too many
 */
function fillMap(map: JavaMap, json: Readonly<Record<string, unknown>> | undefined, e: Evaluation): void {
  for (const [key, value] of Object.entries(json ?? {})) map.fill(key, fromJson(value, e, 0), e);
}

function fromJson(json: unknown, e: Evaluation, depth: number): Value {
  if (json === null || typeof json === 'string' || typeof json === 'boolean') return json;
  if (typeof json === 'number') {
    if (!Number.isInteger(json)) return new JavaDouble(json);
    return Math.abs(json) < 2 ** 31 ? json : new JavaLong(BigInt(json));
  }
  checkDepth(depth);
  if (Array.isArray(json)) {
    e.reserveElements(json.length, json.length);
    return new JavaList(json.map((item) => fromJson(item, e, depth + 1)));
  }
  const entries = Object.entries(json as object);
  const [first] = entries;
  if (first !== undefined && first[0] === '$set' && Array.isArray(first[1])) {
    const set = new JavaSet();
    for (const item of first[1]) set.fill(fromJson(item, e, depth + 1), e);
    return set;
  }
  const map = new JavaMap();
  for (const [key, value] of entries) map.fill(key, fromJson(value, e, depth + 1), e);
  return map;
}

function checkDepth(depth: number): void {
  if (depth >= MAX_VALUE_DEPTH) throw new EvaluationError(`a value is nested deeper than ${MAX_VALUE_DEPTH}`);
}

const PLAIN = [
  'boolean', 'int', 'long', 'double', 'float', 'short', 'byte', 'string', 'char', 'null', 'list', 'array', 'set', 'map',
  'collection', 'optional', 'class',
]; // biome-ignore format: a table

function typeOf(value: Value): string {
  const kind = kindOf(value);
  return PLAIN.includes(kind) ? kind : 'object';
}

/**
 * A value as JSON.
 * @throws EvaluationError where it contains itself, is nested too deep, or is larger than one evaluation's budgets
 */
function valueJson(value: Value, e: Evaluation, depth = 0): unknown {
  e.step();
  if (typeof value === 'string') e.reserveText(value.length);
  if (!(value instanceof JavaObject)) return value;
  if (value instanceof JavaDouble || value instanceof JavaFloat) return numberJson(value.value);
  if (value instanceof JavaLong) {
    return value.value >= BigInt(Number.MIN_SAFE_INTEGER) && value.value <= BigInt(Number.MAX_SAFE_INTEGER)
      ? Number(value.value)
      : String(value.value);
  }
  if (value instanceof JavaSmallInt) return value.value;
  if (value instanceof JavaChar) return value.text;
  if (value instanceof JavaClass) return value.text;
  checkDepth(depth);
  const all = (items: readonly Value[]): unknown[] => items.map((item) => valueJson(item, e, depth + 1));
  if (value instanceof JavaOptional) return value.value === null ? [] : all([value.value]);
  if (value instanceof JavaList || value instanceof JavaArray || value instanceof JavaCollection) {
    return all(value.items);
  }
  if (value instanceof JavaSet) return sorted(value.ordered(e, compareNatural), all);
  if (value instanceof JavaMap) {
    return Object.fromEntries(
      [...value.entries.values()].map((entry) => [javaText(entry.key, e), valueJson(entry.value, e, depth + 1)]),
    );
  }
  return javaText(value, e);
}

function numberJson(value: number): unknown {
  return Number.isFinite(value) ? value : String(value);
}

/** Elements of a set in a stable order: by their JSON. */
function sorted(items: readonly Value[], jsonOf: (items: readonly Value[]) => unknown[]): unknown[] {
  return jsonOf(items)
    .map((json) => ({ json, text: typeof json === 'object' ? JSON.stringify(json) : String(json) }))
    .sort((a, b) => (a.text < b.text ? -1 : a.text > b.text ? 1 : 0))
    .map(({ json }) => json);
}
