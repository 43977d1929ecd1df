import { firstHeader } from '../model/http.ts';
import type { ProductNames } from '../model/names.ts';
import type { RequestUser } from '../model/requestUser.ts';
import type { QualifiedName, QueryProperties } from '../sql/queryProperties.ts';
import { queryDigests, queryEstimate, statementLabels } from '../sql/statementDigests.ts';
import type { RuleRequest } from './decision.ts';
import { type Evaluation, EvaluationError } from './evaluation.ts';
import { long, MethodTable } from './library/methodTable.ts';
import { parametersOf } from './requestParameters.ts';
import { JavaArray, JavaIterator, JavaList, JavaMap, JavaSet } from './values/collections.ts';
import { javaText, textBy } from './values/text.ts';
import { equalTexts } from './values/textSearch.ts';
import {
  compareByText,
  emptyOptional,
  JavaBuilder,
  JavaDouble,
  JavaLong,
  JavaObject,
  JavaOptional,
  textHash,
  type Value,
} from './values/value.ts';

/** Longer names cannot be headers. */
const MAX_HEADER_NAME_LENGTH = 65_536;

/** Half the cost of reading one header line, in characters: names and values come in turn. */
const UNITS_A_HEADER = 8;

/** The object `request`: supported methods of jakarta.servlet.http.HttpServletRequest. */
export class RequestObject extends JavaObject {
  readonly kind = 'request';
  readonly request: RuleRequest;
  readonly #names: ProductNames;
  #lastName: string | null = null;
  #lastValue: string | null = null;
  #headers: Map<string, string[]> | null = null;
  #parameters: Map<string, string[]> | null = null;

  constructor(request: RuleRequest, names: ProductNames) {
    super();
    this.request = request;
    this.#names = names;
  }

  /** Counts a scan of all header lines: 64 of them are a step. */
  countHeaders(e: Evaluation): void {
    e.text(this.request.headers.length * UNITS_A_HEADER);
  }

  /** Values of all headers by lower-case name, in the order of the request. */
  get headers(): Map<string, string[]> {
    if (this.#headers !== null) return this.#headers;
    const headers = new Map<string, string[]>();
    const lines = this.request.headers;
    for (let index = 0; index < lines.length; index += 2) {
      const key = (lines[index] as string).toLowerCase();
      const value = lines[index + 1] as string;
      const values = headers.get(key);
      if (values === undefined) headers.set(key, [value]);
      else values.push(value);
    }
    this.#headers = headers;
    return headers;
  }

  keyOf(name: string): string {
    return name.length > MAX_HEADER_NAME_LENGTH ? '' : this.#names.ownHeader(name).toLowerCase();
  }

  /** First value of a header, or null. @param lowerCaseName result of `keyOf` */
  header(lowerCaseName: string): string | null {
    if (lowerCaseName === this.#lastName) return this.#lastValue;
    const { fields, headers } = this.request;
    const value = (fields === undefined ? firstHeader(headers, lowerCaseName) : fields.get(lowerCaseName)?.[0]) ?? null;
    this.#lastName = lowerCaseName;
    this.#lastValue = value;
    return value;
  }

  /** Created at first use: most rules do not read it. */
  get parameters(): Map<string, string[]> {
    this.#parameters ??= parametersOf(this.request);
    return this.#parameters;
  }
}

export class CookieObject extends JavaObject {
  readonly kind = 'cookie';
  readonly name: string;
  readonly value: string;

  constructor(name: string, value: string) {
    super();
    this.name = name;
    this.value = value;
  }
}

export const cookieMethods = new MethodTable('Cookie', 'operands')
  .add('getName', [], (_e, self: CookieObject) => self.name)
  .add('getValue', [], (_e, self: CookieObject) => self.value);

const COOKIE_WEIGHT = 8;

function cookies(self: RequestObject, e: Evaluation): JavaArray | null {
  self.countHeaders(e);
  const list: CookieObject[] = [];
  for (const line of self.headers.get('cookie') ?? []) {
    e.text(line.length);
    for (const part of line.split(';')) {
      e.reserveElements(list.length + 1, 1, COOKIE_WEIGHT);
      const equals = part.indexOf('=');
      if (equals > 0)
        list.push(
          new CookieObject(
            part.slice(0, equals).trim(),
            part
              .slice(equals + 1)
              .trim()
              .replace(/^"(.*)"$/, '$1'),
          ),
        );
    }
  }
  return list.length === 0 ? null : new JavaArray(list);
}

function bodyLength(self: RequestObject): number {
  const text = self.header('content-length');
  return text !== null && /^[0-9]{1,15}$/.test(text) ? Number(text) : -1;
}

function url({ request }: RequestObject): JavaBuilder {
  const { scheme, serverName, serverPort, path } = request;
  const isDefault = serverPort === (scheme === 'https' ? 443 : 80);
  const host = serverName.includes(':') ? `[${serverName}]` : serverName;
  const builder = new JavaBuilder();
  builder.text = `${scheme}://${host}${isDefault ? '' : `:${serverPort}`}${path}`;
  return builder;
}

function intHeader(self: RequestObject, name: string, e: Evaluation): number {
  self.countHeaders(e);
  const text = self.header(self.keyOf(name));
  if (text === null) return -1;
  if (!/^[+-]?[0-9]{1,10}$/.test(text.trim())) throw new EvaluationError('getIntHeader: the header is no number');
  return Number(text) | 0;
}

function dateHeader(self: RequestObject, name: string, e: Evaluation): Value {
  self.countHeaders(e);
  const text = self.header(self.keyOf(name));
  if (text === null) return long(-1n);
  e.text(8 * text.length);
  const time = Date.parse(text);
  if (Number.isNaN(time)) throw new EvaluationError('getDateHeader: the header is no date');
  return long(BigInt(time));
}

function parameterMap(self: RequestObject, e: Evaluation): JavaMap {
  const map = new JavaMap('insertion', true);
  e.step(self.parameters.size);
  for (const [name, values] of self.parameters) map.fill(name, new JavaArray(values), e);
  return map;
}

function charset(self: RequestObject, e: Evaluation): string | null {
  e.text(8 * (self.header('content-type')?.length ?? 0));
  return /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(self.header('content-type') ?? '')?.[1] ?? null;
}

function absolute(names: Iterable<string>): JavaIterator {
  return new JavaIterator('enumeration', [...names]);
}

export const requestMethods = new MethodTable('request', 'request')
  .add(
    'getHeader',
    ['string?'],
    (e, self: RequestObject, name) => {
      self.countHeaders(e);
      return name === null ? null : self.header(self.keyOf(name));
    },
    'header',
  )
  .add('getHeaders', ['string?'], (e, self: RequestObject, name) => {
    self.countHeaders(e);
    return absolute(name === null ? [] : (self.headers.get(self.keyOf(name)) ?? []));
  })
  .add('getHeaderNames', [], (e, self: RequestObject) => {
    const { length } = self.request.headers;
    e.reserveElements(length, length, COOKIE_WEIGHT);
    const lines = self.request.headers.filter((_line, index) => index % 2 === 0);
    const names = new Map(lines.toReversed().map((name) => [name.toLowerCase(), name] as const));
    return absolute([...names.values()].toReversed());
  })
  .add('getIntHeader', ['string'], (e, self: RequestObject, name) => intHeader(self, name, e))
  .add('getDateHeader', ['string'], (e, self: RequestObject, name) => dateHeader(self, name, e))
  .add('getMethod', [], (_e, self: RequestObject) => self.request.method, { reads: 'method' })
  .add('getRequestURI', [], (_e, self: RequestObject) => self.request.path, { reads: 'path' })
  .add('getRequestURL', [], (_e, self: RequestObject) => url(self))
  .add('getQueryString', [], (_e, self: RequestObject) => self.request.query)
  .add('getServletPath', [], () => '')
  .add('getContextPath', [], () => '')
  .add('getPathInfo', [], (_e, self: RequestObject) => self.request.path, { reads: 'path' })
  .add('getParameter', ['string?'], (_e, self: RequestObject, name) =>
    name === null ? null : (self.parameters.get(name)?.[0] ?? null),
  )
  .add('getParameterValues', ['string?'], (_e, self: RequestObject, name) => {
    const values = name === null ? undefined : self.parameters.get(name);
    return values === undefined ? null : new JavaArray(values);
  })
  .add('getParameterMap', [], (e, self: RequestObject) => parameterMap(self, e))
  .add('getParameterNames', [], (e, self: RequestObject) => {
    e.reserveElements(self.parameters.size, self.parameters.size);
    return absolute(self.parameters.keys());
  })
  .add('getRemoteAddr', [], (_e, self: RequestObject) => self.request.remoteAddr)
  // No DNS lookup: the address, like servlet containers without lookups.
  .add('getRemoteHost', [], (_e, self: RequestObject) => self.request.remoteAddr)
  .add('getRemoteUser', [], (_e, self: RequestObject) => self.request.remoteUser)
  .add('getAuthType', [], () => null)
  // No filter sets attributes or authenticates clients before the rules.
  .add('getUserPrincipal', [], () => null)
  .add('getAttribute', ['string?'], () => null)
  .add('getAttributeNames', [], () => new JavaIterator('enumeration', []))
  .add('getScheme', [], (_e, self: RequestObject) => self.request.scheme)
  .add('isSecure', [], (_e, self: RequestObject) => self.request.scheme === 'https')
  .add('getProtocol', [], () => 'HTTP/1.1')
  .add('getServerName', [], (_e, self: RequestObject) => self.request.serverName)
  .add('getServerPort', [], (_e, self: RequestObject) => self.request.serverPort)
  .add('getContentType', [], (_e, self: RequestObject) => self.header('content-type'))
  .add('getContentLength', [], (_e, self: RequestObject) => (bodyLength(self) > 2_147_483_647 ? -1 : bodyLength(self)))
  .add('getContentLengthLong', [], (_e, self: RequestObject) => long(BigInt(bodyLength(self))))
  .add('getCharacterEncoding', [], (e, self: RequestObject) => charset(self, e))
  .add('getCookies', [], (e, self: RequestObject) => cookies(self, e));

/** The object `engineRequestUser` (docs/rules.md#objects). */
export class UserObject extends JavaObject {
  readonly kind = 'user';
  readonly user: RequestUser;

  readonly name: JavaOptional;
  #groups: JavaSet | null = null;

  constructor(user: RequestUser) {
    super();
    this.user = user;
    this.name = user.user === null ? emptyOptional : new JavaOptional(user.user);
  }

  /** Result of getGroups(): created once; immutable for rules. */
  groups(e: Evaluation): JavaSet {
    if (this.#groups === null) {
      const set = new JavaSet('insertion', true);
      for (const group of this.user.membership?.groups ?? []) set.fill(group, e);
      this.#groups = set;
    }
    return this.#groups;
  }
}

/** OpenID Connect user info: claims by name. */
export class UserInfoObject extends JavaObject {
  readonly kind = 'userInfo';
  readonly claims: ReadonlyMap<string, unknown>;

  constructor(claims: Readonly<Record<string, unknown>>) {
    super();
    this.claims = new Map(Object.entries(claims));
  }

  /** A claim's text; null if missing or not a text. */
  text(name: string): string | null {
    const claim = this.claims.get(name);
    return typeof claim === 'string' ? claim : null;
  }
}

export const userMethods = new MethodTable('request user', 'request')
  .add('getUser', [], (_e, self: UserObject) => self.name, { reads: 'user' })
  .add('getUserInfo', [], (_e, self: UserObject) =>
    self.user.userInfo === null ? emptyOptional : new JavaOptional(new UserInfoObject(self.user.userInfo)),
  )
  .add('userExistsAndEquals', ['string'], (_e, self: UserObject, name) => self.user.user === name && name !== '', {
    reads: 'user',
  })
  .add('getGroups', [], (e, self: UserObject) => self.groups(e), { reads: 'group' })
  .add(
    'isInGroup',
    ['string'],
    (_e, self: UserObject, group) => self.user.membership?.groups.includes(group) === true,
    { reads: 'group' },
  );

export const userInfoMethods = new MethodTable('UserInfo', 'operands')
  .add('getSubject', [], (_e, self: UserInfoObject) => self.text('sub'))
  .add('getName', [], (_e, self: UserInfoObject) => self.text('name'))
  .add('getGivenName', [], (_e, self: UserInfoObject) => self.text('given_name'))
  .add('getFamilyName', [], (_e, self: UserInfoObject) => self.text('family_name'))
  .add('getPreferredUsername', [], (_e, self: UserInfoObject) => self.text('preferred_username'))
  .add('getEmailAddress', [], (_e, self: UserInfoObject) => self.text('email'))
  .add('getStringClaim', ['string'], (_e, self: UserInfoObject, name) => self.text(name))
  .add('getClaim', ['string'], (e, self: UserInfoObject, name) => fromJson(self.claims.get(name) ?? null, e))
  .add('getStringListClaim', ['string'], (e, self: UserInfoObject, name) => {
    const claim = self.claims.get(name);
    return Array.isArray(claim)
      ? fromJson(
          claim.filter((item) => typeof item === 'string'),
          e,
        )
      : null;
  });

/** A JSON value as a value of the language; at most 32 levels deep. */
function fromJson(json: unknown, e: Evaluation, depth = 0): Value {
  if (depth > 32) throw new EvaluationError('a claim is nested too deep');
  if (json === null || typeof json === 'string' || typeof json === 'boolean') return json;
  if (typeof json === 'number') {
    if (!Number.isInteger(json)) return new JavaDouble(json);
    return Math.abs(json) < 2_147_483_648 ? json : new JavaLong(BigInt(json));
  }
  if (Array.isArray(json)) {
    e.reserveElements(json.length, json.length);
    return new JavaList(
      json.map((item) => fromJson(item, e, depth + 1)),
      'immutable',
    );
  }
  const map = new JavaMap('insertion', true);
  for (const [key, value] of Object.entries(json as object)) map.fill(key, fromJson(value, e, depth + 1), e);
  return map;
}

/** The object `engineQueryProperties` (docs/rules.md#objects). */
export class QueryObject extends JavaObject {
  readonly kind = 'query';
  readonly properties: QueryProperties;
  #tables: Set<string> | null = null;
  #sets: Record<'catalogs' | 'schemas' | 'catalogSchemas', JavaSet | undefined> | null = null;

  constructor(properties: QueryProperties) {
    super();
    this.properties = properties;
  }

  /** True if the query uses a table, by its lower-case parts. */
  hasTable(parts: readonly string[]): boolean {
    const { tables } = this.properties;
    if (tables.length > 16) return this.tables.has(parts.join('\0'));
    return tables.some((table) => table[2] === parts[2] && table[1] === parts[1] && table[0] === parts[0]);
  }

  /** A set of names, created once; immutable for rules. */
  set(name: 'catalogs' | 'schemas' | 'catalogSchemas', e: Evaluation): JavaSet {
    this.#sets ??= { catalogs: undefined, schemas: undefined, catalogSchemas: undefined };
    let set = this.#sets[name];
    if (set === undefined) {
      set = stringSet(e, this.properties[name]);
      this.#sets[name] = set;
    }
    return set;
  }

  /** Keys of all tables (`tableKey`). */
  get tables(): ReadonlySet<string> {
    this.#tables ??= new Set(this.properties.tables.map((parts) => parts.join('\0')));
    return this.#tables;
  }
}

/** True without an analyzed statement: empty or too long body, unknown charset, another method, no time. */
export function isUnanalysed({ queryType, body }: QueryProperties): boolean {
  return queryType === '' && body === '';
}

/** Longer names cannot be tables and are not parsed. */
const MAX_NAME_LENGTH = 65_536;

/** The key of a table's name: split at dots outside double quotes, lower-case; null unless it has three parts. */
export function tableKey(name: string): string | null {
  if (name.length > MAX_NAME_LENGTH) return null;
  const parts: string[] = [];
  let part = '';
  let isQuoted = false;
  for (let index = 0; index < name.length; index += 1) {
    const char = name.charAt(index);
    if (char === '"' && name.charAt(index - 1) !== '\\') isQuoted = !isQuoted;
    else if (char === '.' && !isQuoted) {
      parts.push(part);
      part = '';
    } else part += char;
  }
  parts.push(part);
  if (isQuoted || parts.length !== 3 || parts.some((text) => text === '')) return null;
  return parts.map((text) => text.toLowerCase()).join('\0');
}

export class QualifiedNameObject extends JavaObject {
  readonly kind = 'qualifiedName';
  readonly parts: QualifiedName;

  constructor(parts: QualifiedName) {
    super();
    this.parts = parts;
  }
}

export const qualifiedNameMethods = new MethodTable('QualifiedName', 'operands')
  .add('getParts', [], (_e, self: QualifiedNameObject) => new JavaList([...self.parts], 'immutable'))
  .add('getSuffix', [], (_e, self: QualifiedNameObject) => self.parts.at(-1) ?? '')
  .add('getPrefix', [], (_e, self: QualifiedNameObject) =>
    self.parts.length < 2 ? emptyOptional : new JavaOptional(new QualifiedNameObject(self.parts.slice(0, -1))),
  )
  .add('toString', [], (e, self: QualifiedNameObject) => javaText(self, e))
  .add('hashCode', [], (e, self: QualifiedNameObject) => textHash(javaText(self, e), e))
  .add('equals', ['any'], (e, self: QualifiedNameObject, other) => sameName(self, other, e));

function joined({ parts }: QualifiedNameObject, e: Evaluation): string {
  const text = parts.join('\0');
  e.text(8 * text.length);
  return text;
}

function sameName(a: QualifiedNameObject, b: Value, e: Evaluation): boolean {
  return b instanceof QualifiedNameObject && equalTexts(joined(a, e), joined(b, e), e);
}

textBy('qualifiedName', (value) => (value as QualifiedNameObject).parts.join('.'));
compareByText('qualifiedName', (value) => (value as QualifiedNameObject).parts.join('\0'));

/**
 * The properties, for values from the body.
 * @throws EvaluationError if a deny rule reads a statement that was not analyzed, or that the engine may not run
 */
export function analysed(e: Evaluation, { properties }: QueryObject): QueryProperties {
  if (!e.requireAnalysis) return properties;
  if (properties.unreadable !== undefined) {
    e.isUnreadable = true;
    throw new EvaluationError(`it is not certain what the engine runs: ${properties.unreadable}`);
  }
  if (isUnanalysed(properties)) throw new EvaluationError(properties.errorMessage ?? NOT_ANALYSED);
  return properties;
}

/** Message of a deny rule that reads a body without analysis. */
export const NOT_ANALYSED =
  'the request has no body that was analysed (it is empty, too long or of an unknown charset)';

function analysedSet(e: Evaluation, self: QueryObject, name: 'catalogs' | 'schemas' | 'catalogSchemas'): JavaSet {
  analysed(e, self);
  return self.set(name, e);
}

function stringSet(e: Evaluation, items: readonly Value[]): JavaSet {
  const set = new JavaSet('insertion', true);
  for (const item of items) set.fill(item, e);
  return set;
}

/** Labels of the statement by name; empty if no known tool wrote it. */
function labelsOf({ body }: QueryProperties, e: Evaluation): JavaMap {
  const { request } = e.objects;
  request.countHeaders(e);
  e.text(MAX_LABEL_COST);
  const labels = new JavaMap('insertion', true);
  for (const [name, value] of Object.entries(statementLabels(body, request.header(request.keyOf(SOURCE))) ?? {})) {
    labels.fill(name, value, e);
  }
  return labels;
}

/** The estimate of the statement: a map with all of its figures. */
function estimateOf(properties: QueryProperties, e: Evaluation): JavaMap {
  e.text(8 * properties.body.length);
  const { seconds, cpuSeconds, peakMemoryBytes, confidence, ...rest } = queryEstimate(properties);
  const figures = {
    ...rest,
    seconds: seconds === null ? null : new JavaDouble(seconds),
    cpuSeconds: cpuSeconds === null ? null : new JavaDouble(cpuSeconds),
    peakMemoryBytes: peakMemoryBytes === null ? null : long(BigInt(peakMemoryBytes)),
    confidence: new JavaDouble(confidence),
  };
  const map = new JavaMap('insertion', true);
  for (const [name, value] of Object.entries(figures)) map.fill(name, value, e);
  return map;
}

/** The first name of the header with the source of a query, under any product name. */
const SOURCE = 'X-Trino-Source';
/** Cost of reading the comments around a statement, characters. */
const MAX_LABEL_COST = 65_536;

const optionalText = (text: string | null): JavaOptional => (text === null ? emptyOptional : new JavaOptional(text));

export const queryMethods = new MethodTable('query properties', 'request')
  .add('errorMessage', [], (e, self: QueryObject) => analysed(e, self).errorMessage)
  // Additional name: rules of Trino Gateway call getErrorMessage().isPresent().
  .add('getErrorMessage', [], (e, self: QueryObject) => optionalText(analysed(e, self).errorMessage))
  .add('isQueryParsingSuccessful', [], (e, self: QueryObject) => analysed(e, self).errorMessage === null)
  .add('isNewQuerySubmission', [], (_e, self: QueryObject) => self.properties.isNewQuerySubmission)
  .add('getQueryType', [], (e, self: QueryObject) => analysed(e, self).queryType, { reads: 'queryType' })
  .add('getResourceGroupQueryType', [], (e, self: QueryObject) => analysed(e, self).resourceGroupQueryType, {
    reads: 'resourceGroupQueryType',
  })
  .add('getDefaultCatalog', [], (_e, self: QueryObject) => self.properties.defaultCatalog, { reads: 'defaultCatalog' })
  .add('getDefaultSchema', [], (_e, self: QueryObject) => self.properties.defaultSchema, { reads: 'defaultSchema' })
  .add('getCatalogs', [], (e, self: QueryObject) => analysedSet(e, self, 'catalogs'), { reads: 'catalog' })
  .add('getSchemas', [], (e, self: QueryObject) => analysedSet(e, self, 'schemas'), { reads: 'schema' })
  .add('getCatalogSchemas', [], (e, self: QueryObject) => analysedSet(e, self, 'catalogSchemas'), {
    reads: 'catalogSchema',
  })
  .add(
    'tablesContains',
    ['string'],
    (e, self: QueryObject, name) => {
      analysed(e, self);
      e.text(8 * Math.min(name.length, MAX_NAME_LENGTH));
      const key = tableKey(name);
      return key !== null && self.tables.has(key);
    },
    { reads: 'table' },
  )
  .add(
    'getTables',
    [],
    (e, self: QueryObject) =>
      stringSet(
        e,
        analysed(e, self).tables.map((parts) => new QualifiedNameObject(parts)),
      ),
    { reads: 'table' },
  )
  .add('getBody', [], (e, self: QueryObject) => analysed(e, self).body)
  .add(
    'getQueryDigest',
    [],
    (e, self: QueryObject) => {
      const properties = analysed(e, self);
      e.text(8 * properties.body.length);
      return queryDigests(properties).shape;
    },
    { reads: 'queryDigest' },
  )
  .add('getEstimate', [], (e, self: QueryObject) => estimateOf(analysed(e, self), e), { reads: 'estimate' })
  .add('getQueryLabels', [], (e, self: QueryObject) => labelsOf(analysed(e, self), e))
  .add('getQueryId', [], (e, self: QueryObject) => optionalText(analysed(e, self).queryId));
