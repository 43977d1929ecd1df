import { firstHeader } from '../../model/http.ts';
import type { ProductNames } from '../../model/names.ts';
import type { RuleRequest } from '../decision.ts';
import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { long, MethodTable } from '../library/methodTable.ts';
import { parametersOf } from '../requestParameters.ts';
import { JavaArray, JavaIterator, JavaMap } from '../values/collections.ts';
import { JavaBuilder, JavaObject, type Value } from '../values/value.ts';

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
    const value = firstHeader(this.request.headers, lowerCaseName) ?? null;
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
