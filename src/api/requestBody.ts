import type { FastifyRequest } from 'fastify';
import { GatewayError } from '../model/errors.ts';
import { exceededBound } from '../model/jsonShape.ts';

const BOUNDS = { values: 5_000, depth: 100 };

/**
 * The JSON value of a request whose body was read as bytes. UTF-8 must be right, every
 * string must be storable as UTF-8, and no object may name a key twice.
 * @param type `any`: what Content-Type states is ignored, for families whose callers never sent the right one
 * @throws GatewayError EG_MEDIA_TYPE for another Content-Type (absent means JSON), EG_MALFORMED for the rest
 */
export function jsonBody(request: FastifyRequest, type: 'json' | 'any' = 'json'): unknown {
  if (type === 'json') requireJson(request.headers['content-type']);
  const text = utf8(request.body as Buffer | undefined);
  if (text.trim() === '') throw malformedBody('The body is empty; send a JSON object.');
  const bound = exceededBound(text, BOUNDS);
  // A text that would take long to parse and to check.
  if (bound === 'depth') throw malformedBody(`The body is nested more than ${BOUNDS.depth} levels deep; send less.`);
  if (bound === 'values') throw malformedBody(`The body has more than ${BOUNDS.values} values; send fewer.`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new GatewayError('EG_MALFORMED', `The body is not JSON: ${(cause as Error).message}`, { cause });
  }
  const twice = repeatedKey(text);
  if (twice !== null) throw malformedBody(`${twice} is given twice; leave one out.`, twice);
  const broken = unpairedSurrogate(value);
  if (broken !== null) {
    const message = `${broken || 'The body'} holds half of a surrogate pair (\\ud800 to \\udfff).`;
    throw malformedBody(message, broken);
  }
  return value;
}

/**
 * The body as text, whatever its Content-Type states.
 * @throws GatewayError EG_MALFORMED when it is not UTF-8
 */
export function utf8(body: Buffer | undefined): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body);
  } catch (cause) {
    throw new GatewayError('EG_MALFORMED', 'The body is not UTF-8.', { cause });
  }
}

function requireJson(contentType: string | undefined): void {
  if (contentType === undefined) return;
  const [type = '', ...parameters] = contentType.toLowerCase().split(';');
  const charset = parameters.map((text) => text.trim()).find((text) => text.startsWith('charset='));
  const utf = charset === undefined || /^charset="?utf-?8"?$/.test(charset);
  if (/^application\/(.+\+)?json$/.test(type.trim()) && utf) return;
  throw new GatewayError('EG_MEDIA_TYPE', `Content-Type ${contentType} is not accepted here; send application/json.`);
}

function malformedBody(message: string, field = ''): GatewayError {
  return new GatewayError('EG_MALFORMED', message, field === '' ? {} : { field });
}

/** The first key that an object of the text names twice; null when none. The text must be valid JSON. */
function repeatedKey(text: string): string | null {
  const open: (Set<string> | null)[] = [];
  let expectsKey = false;
  for (let index = 0; index < text.length; index++) {
    const character = text[index];
    if (character === '"') {
      const start = index;
      for (index++; text[index] !== '"'; index++) if (text[index] === '\\') index++;
      const keys = open.at(-1);
      if (!expectsKey || keys === null || keys === undefined) continue;
      const key = JSON.parse(text.slice(start, index + 1)) as string;
      if (keys.has(key)) return key;
      keys.add(key);
      expectsKey = false;
    } else if (character === '{') {
      open.push(new Set());
      expectsKey = true;
    } else if (character === '[') {
      open.push(null);
    } else if (character === '}' || character === ']') {
      open.pop();
      expectsKey = false;
    } else if (character === ',') {
      expectsKey = open.at(-1) !== null;
    }
  }
  return null;
}

/** Path of the first text that holds an unpaired surrogate (empty: the value itself); null when it is missing. */
function unpairedSurrogate(value: unknown): string | null {
  const open: [string, unknown][] = [['', value]];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [path, current] = next;
    if (typeof current === 'string' && !current.isWellFormed()) return path;
    if (typeof current !== 'object' || current === null) continue;
    for (const [key, member] of Object.entries(current)) {
      if (!key.isWellFormed()) return path;
      open.push([Array.isArray(current) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`, member]);
    }
  }
  return null;
}
