import type { ProductNames } from '../../model/names.ts';
import type { Block, Expression } from '../language/ast.ts';
import { statementsIn } from '../language/children.ts';
import { libraryClass } from '../library/library.ts';
import { kindOf, type ValueKind } from '../values/value.ts';

export interface StaticKind {
  /** Its kind if it is not null; null: any. */
  readonly kind: ValueKind | null;
  /** Java class, if the expression determines it: `ArrayList` of `new ArrayList()`. */
  readonly javaClass: string | null;
}

const UNKNOWN: StaticKind = { kind: null, javaClass: null };
const ofKind = (kind: ValueKind, javaClass: string | null = null): StaticKind => ({ kind, javaClass });

type Results = ReadonlyMap<string, ValueKind>;

/** Kinds by method, from the methods of each kind. */
const results = (methods: Readonly<Partial<Record<ValueKind, string>>>): Results =>
  new Map(
    Object.entries(methods).flatMap(([kind, names]) => names.split(' ').map((name) => [name, kind as ValueKind])),
  );

const RESULTS = results({
  boolean:
    'contains containsKey containsValue containsAll equals equalsIgnoreCase startsWith endsWith matches isEmpty isBlank isPresent hasNext hasMoreElements hasMoreTokens contentEquals regionMatches booleanValue',
  int: 'length size indexOf lastIndexOf hashCode compareTo compareToIgnoreCase intValue codePointAt',
  long: 'longValue count',
  double: 'doubleValue',
  char: 'charAt charValue',
  string:
    'toString substring trim strip stripLeading stripTrailing toLowerCase toUpperCase replaceAll replaceFirst concat formatted nextToken',
  set: 'keySet entrySet',
  list: 'subList toList',
});

const REQUEST_RESULTS = results({
  string:
    'getHeader getMethod getRequestURI getQueryString getParameter getRemoteAddr getRemoteHost getScheme getServerName getContentType getProtocol',
  int: 'getContentLength getServerPort getIntHeader',
  boolean: 'isSecure',
  map: 'getParameterMap',
});
const USER_RESULTS = results({ optional: 'getUser getUserInfo', boolean: 'userExistsAndEquals' });
/** Methods of the query, except texts that are also an Optional (docs/rules.md#default-catalog-and-schema). */
const QUERY_RESULTS = results({
  string: 'getQueryType getResourceGroupQueryType getBody getQueryDigest',
  map: 'getQueryLabels getEstimate',
  boolean: 'isNewQuerySubmission isQueryParsingSuccessful tablesContains',
  set: 'getCatalogs getSchemas getCatalogSchemas getTables',
  optional: 'getErrorMessage getQueryId',
});

const STATIC_RESULTS: ReadonlyMap<string, Results> = new Map([
  ['List', results({ list: 'of copyOf' })],
  ['Set', results({ set: 'of copyOf' })],
  ['Map', results({ map: 'of copyOf' })],
  ['Arrays', results({ list: 'asList' })],
  [
    'Collections',
    results({ list: 'list nCopies emptyList singletonList', set: 'emptySet singleton', map: 'emptyMap' }),
  ],
  ['Optional', results({ optional: 'of ofNullable empty' })],
  ['String', results({ string: 'valueOf join format' })],
  ['Integer', results({ int: 'parseInt valueOf' })],
  ['Long', results({ long: 'parseLong valueOf' })],
  ['Double', results({ double: 'parseDouble valueOf' })],
  ['Boolean', results({ boolean: 'parseBoolean valueOf' })],
]);

const NUMBERS: ReadonlySet<ValueKind | null> = new Set<ValueKind>(['int', 'long', 'float', 'double', 'short', 'byte']);

export function isNumberKind(kind: ValueKind | null): boolean {
  return NUMBERS.has(kind);
}

export class StaticKinds {
  readonly #objects: ReadonlyMap<string, Results>;
  /** By variable; unknown if its assignments differ. */
  readonly #variables = new Map<string, StaticKind>();
  /** Inferred kinds, valid when all assignments are known. */
  readonly #cache = new Map<Expression, StaticKind>();

  constructor(block: Block, names: ProductNames) {
    this.#objects = new Map([
      ['request', REQUEST_RESULTS],
      [names.requestUserObject, USER_RESULTS],
      [names.queryPropertiesObject, QUERY_RESULTS],
    ]);
    this.#addAll(block);
    this.#cache.clear();
  }

  of(expression: Expression): StaticKind {
    const before = this.#cache.get(expression);
    if (before !== undefined) return before;
    const kind = this.#workedOut(expression);
    this.#cache.set(expression, kind);
    return kind;
  }

  #workedOut(expression: Expression): StaticKind {
    switch (expression.type) {
      case 'literal':
        return expression.value === null ? UNKNOWN : ofKind(kindOf(expression.value));
      case 'name':
        return this.#ofName(expression.name);
      case 'not':
      case 'logical':
      case 'isdef':
        return ofKind('boolean');
      case 'list':
        return ofKind('list', 'ArrayList');
      case 'map':
        return ofKind('map', 'HashMap');
      case 'new':
        return ofClass(expression.className);
      case 'binary':
        return this.#ofBinary(expression);
      case 'ternary': {
        const [yes, no] = [this.of(expression.yes), this.of(expression.no)];
        return yes.kind === no.kind ? ofKindOrUnknown(yes.kind) : UNKNOWN;
      }
      case 'negate':
        return isNumberKind(this.of(expression.operand).kind) ? this.of(expression.operand) : UNKNOWN;
      case 'index':
        return this.of(expression.target).kind === 'string' ? ofKind('char') : UNKNOWN;
      case 'call':
        return expression.safe ? UNKNOWN : this.#ofCall(expression.target, expression.name);
      case 'property':
        return expression.safe ? UNKNOWN : this.#ofProperty(expression.target, expression.name);
      default:
        return UNKNOWN;
    }
  }

  #ofName(name: string): StaticKind {
    if (name === 'state' || name === 'result') return ofKind('map', 'HashMap');
    return this.#variables.get(name) ?? UNKNOWN;
  }

  #ofBinary({ operator, left, right }: Extract<Expression, { type: 'binary' }>): StaticKind {
    if (operator === 'or') return UNKNOWN;
    const [a, b] = [this.of(left).kind, this.of(right).kind];
    if (operator === '+') {
      if (a === 'string' || a === 'char') return ofKind('string');
      if (a === 'list') return ofKind('list', 'ArrayList');
      if (isNumberKind(a) && isNumberKind(b)) return ofKindOrUnknown(a === b ? a : null);
      return isNumberKind(a) && b === 'string' ? ofKind('string') : UNKNOWN;
    }
    if (['-', '*', '/', '%'].includes(operator)) return isNumberKind(a) && isNumberKind(b) ? ofKind('double') : UNKNOWN;
    return ofKind('boolean');
  }

  #ofCall(target: Expression, name: string): StaticKind {
    if (target.type === 'name') {
      const ofObject = this.#objects.get(target.name);
      if (ofObject !== undefined) return resultOf(ofObject, name);
      const ofStatics = this.#variables.has(target.name) ? undefined : STATIC_RESULTS.get(target.name);
      if (ofStatics !== undefined) {
        const { kind } = resultOf(ofStatics, name);
        return kind === null ? UNKNOWN : ofKind(kind, `${target.name}.${name}`);
      }
    }
    return resultOf(RESULTS, name);
  }

  /** Only getters of request, user and query: on others a property may be a key of a map. */
  #ofProperty(target: Expression, name: string): StaticKind {
    const ofObject = target.type === 'name' ? this.#objects.get(target.name) : undefined;
    if (ofObject === undefined) return UNKNOWN;
    const capital = name.charAt(0).toUpperCase() + name.slice(1);
    return [`get${capital}`, `is${capital}`]
      .map((getter) => resultOf(ofObject, getter))
      .reduce((first, second) => (first.kind === null ? second : first));
  }

  #addAll(block: Block): void {
    for (const statement of statementsIn(block)) {
      if (statement.type === 'assign' && statement.target.type === 'name') {
        this.#assign(statement.target.name, statement.operator === '=' ? this.of(statement.value) : UNKNOWN);
      } else if (statement.type === 'declare') {
        const { name, javaType, value } = statement;
        this.#assign(name, javaType === 'var' && value !== null ? this.of(value) : UNKNOWN);
      } else if (statement.type === 'increment' || statement.type === 'foreach') {
        this.#assign(statement.name, UNKNOWN);
      }
    }
  }

  #assign(name: string, value: StaticKind): void {
    const before = this.#variables.get(name);
    const isSame = before === undefined || (before.kind === value.kind && before.javaClass === value.javaClass);
    this.#variables.set(name, isSame ? value : UNKNOWN);
  }
}

function ofKindOrUnknown(kind: ValueKind | null): StaticKind {
  return kind === null ? UNKNOWN : ofKind(kind);
}

function ofClass(className: string): StaticKind {
  const libraryType = libraryClass(className);
  const [kind, another] = libraryType?.instances ?? [];
  return libraryType === undefined || kind === undefined || another !== undefined
    ? UNKNOWN
    : ofKind(kind, libraryType.name);
}

function resultOf(methods: Results, name: string): StaticKind {
  return ofKindOrUnknown(methods.get(name) ?? null);
}
