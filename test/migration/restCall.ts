/** A REST call as it is sent to both gateways, what it is answered, and in what two answers differ. */

/** A call of the REST API. */
export interface RestCall {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE' | 'OPTIONS' | 'HEAD';
  readonly path: string;
  /** What is particular to it. */
  readonly what: string;
  /** Text is sent as it is, another value as JSON; absent: no body. */
  readonly body?: unknown;
  /** `Content-Type`; by default that of the body. Null: none. */
  readonly contentType?: string | null;
  /** Who calls: name and password as Basic; absent: nobody. */
  readonly as?: string;
  /** False where the content has nothing in common on purpose: only status and headers are compared. */
  readonly hasBody?: boolean;
  /** Names of clusters that may be there afterwards and are deleted before the next call. */
  readonly leaves?: readonly string[];
}

/** What of a call is not its method, path and body. */
export type CallOptions = Omit<Partial<RestCall>, 'method' | 'path' | 'what' | 'body'>;

export const get = (path: string, what: string, options: CallOptions = {}): RestCall => ({
  method: 'GET',
  path,
  what,
  ...options,
});
export const post = (path: string, what: string, body?: unknown, options: CallOptions = {}): RestCall => ({
  method: 'POST',
  path,
  what,
  ...(body === undefined ? {} : { body }),
  ...options,
});

/** An answer, without what differs from run to run. */
export interface RestResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON data; what else it is, as a word. */
  readonly body: { readonly json: unknown } | { readonly word: string };
}

/** What differs, by the part of the answer: there and here. */
export type Differences = Readonly<Record<string, readonly [there: unknown, here: unknown]>>;

/** Headers that clients act on. */
const compared = ['allow', 'location', 'www-authenticate', 'retry-after', 'warning'];
/** Longest JSON text that a difference shows whole. */
const SHOWN = 120;
const ABSENT = 'absent';
const PRESENT = 'present';

/** Name of a call in lists. */
export const nameOf = ({ method, path, what }: RestCall): string => `${method} ${path}: ${what}`;

/**
 * Sends a call.
 * @param plain replaces what differs from run to run: addresses of clusters and gateways
 */
export async function sendCall(
  gateway: string,
  call: RestCall,
  plain: (text: string) => string,
): Promise<RestResponse> {
  const { method, path, body, as } = call;
  const isText = typeof body === 'string';
  const type = call.contentType === undefined ? (isText ? 'text/plain' : 'application/json') : call.contentType;
  const response = await fetch(`${gateway}${path}`, {
    method,
    redirect: 'manual',
    signal: AbortSignal.timeout(30_000),
    headers: {
      ...(body === undefined || type === null ? {} : { 'content-type': type }),
      ...(as === undefined ? {} : { authorization: `Basic ${btoa(as)}` }),
    },
    // A Blob without a type is sent without Content-Type, which text is not.
    ...(body === undefined ? {} : { body: new Blob([isText ? body : JSON.stringify(body)]) }),
  });
  const text = plain(await response.text()).replaceAll(gateway, 'http://gateway');
  const headers: Record<string, string> = {};
  for (const name of compared) {
    const value = response.headers.get(name);
    if (value !== null) headers[name] = plain(value).replaceAll(gateway, 'http://gateway');
  }
  if (headers.allow !== undefined) headers.allow = headers.allow.split(/, */).sort().join(', ');
  const cookies = response.headers.getSetCookie().map((cookie) => cookie.split('=', 1)[0]);
  if (cookies.length > 0) headers['set-cookie'] = cookies.sort().join(', ');
  const media = (response.headers.get('content-type') ?? '').split(';', 1)[0] ?? '';
  if (text !== '') headers['content-type'] = media;
  return { status: response.status, headers, body: bodyOf(text, media) };
}

function bodyOf(text: string, media: string): RestResponse['body'] {
  if (text === '') return { word: 'empty' };
  if (media === 'text/html') return { word: 'page' };
  try {
    const json = JSON.parse(text) as unknown;
    const code = errorCode(json);
    return code === null ? { json: withoutChance(json) } : { word: code };
  } catch {
    return { word: media === 'application/vnd.sun.wadl+xml' ? 'WADL' : text };
  }
}

/** The code of an error: a word in the forms of both gateways, or the number of a wrapped one. */
function errorCode(json: unknown): string | null {
  const { code, error } = (json ?? {}) as { code?: unknown; error?: { code?: unknown } };
  const word = [code, error?.code].find((value) => typeof value === 'string');
  if (word !== undefined) return word as string;
  return typeof code === 'number' && code !== 200 ? `code ${code}` : null;
}

/** A distribution without the time of the start, and in an order: the release gives it in that of a hash table. */
function withoutChance(json: unknown): unknown {
  const { data } = (json ?? {}) as { data?: { startTime?: string; distributionChart?: { backendUrl: string }[] } };
  if (!isObject(data) || data.distributionChart === undefined) return json;
  const distributionChart = data.distributionChart.toSorted((a, b) => (a.backendUrl < b.backendUrl ? -1 : 1));
  return { ...(json as object), data: { ...data, distributionChart, startTime: typeof data.startTime } };
}

/** In what two answers differ. */
export function differencesOf(call: RestCall, there: RestResponse, here: RestResponse): Differences {
  const found: Record<string, readonly [unknown, unknown]> = {};
  if (there.status !== here.status) found.status = [there.status, here.status];
  // What is another kind of body is written in another form.
  const isSameKind = call.hasBody === false || wordOf(there.body) === wordOf(here.body);
  for (const name of new Set([...Object.keys(there.headers), ...Object.keys(here.headers)])) {
    const [old, own] = [there.headers[name] ?? ABSENT, here.headers[name] ?? ABSENT];
    if (old !== own && (name !== 'content-type' || isSameKind)) found[name] = [old, own];
  }
  if (call.hasBody === false) return found;
  if ('json' in there.body && 'json' in here.body) compareJson('body', there.body.json, here.body.json, found);
  else {
    const [old, own] = [wordOf(there.body), wordOf(here.body)];
    if (old !== own) found.body = [old, own];
  }
  return found;
}

/** In what two values differ: the paths of the parts that do. */
export function compareJson(
  path: string,
  there: unknown,
  here: unknown,
  found: Record<string, readonly [unknown, unknown]>,
): void {
  if (Array.isArray(there) && Array.isArray(here)) {
    // The same difference of several elements is one.
    if (there.length === here.length)
      for (const [index, value] of there.entries()) compareJson(`${path}[]`, value, here[index], found);
    else found[path] = [`${there.length} elements`, `${here.length} elements`];
  } else if (isObject(there) && isObject(here)) {
    for (const key of new Set([...Object.keys(there), ...Object.keys(here)])) {
      const name = /^\w+$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`;
      if (key in there && key in here) compareJson(`${path}${name}`, there[key], here[key], found);
      else found[`${path}${name}`] = key in there ? [PRESENT, ABSENT] : [ABSENT, PRESENT];
    }
  } else if (JSON.stringify(there) !== JSON.stringify(here)) found[path] = [shown(there), shown(here)];
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const wordOf = (body: RestResponse['body']): string => ('word' in body ? body.word : 'data');

/** A value as the list of differences has it: short ones as they are. */
function shown(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  const text = JSON.stringify(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text;
}
