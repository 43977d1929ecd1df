import type { FastifyReply, FastifyRequest } from 'fastify';
import { GatewayError } from '../../model/errors.ts';
import { pathOf } from '../errors.ts';
import type { RouteContext } from '../routes.ts';
import type { BuiltFile, BuiltUserInterface } from './builtFiles.ts';

export interface UserInterfaceParts {
  /** The built files; null: not built. */
  readonly built: BuiltUserInterface | null;
  /** `uiConfiguration.enabled`. */
  readonly enabled: boolean;
}

/** Nothing from other hosts, nothing inline, in no frame (CSP Level 3). */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "font-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'self'",
  "frame-ancestors 'none'",
].join('; ');

const pageHeaders = {
  'Content-Security-Policy': policy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Permissions-Policy': 'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
  'Referrer-Policy': 'same-origin',
  'X-Frame-Options': 'DENY',
};

/** Pages are distinguished by the browser; what lies below these is no page. */
const noPages = /^(api|assets|livez|readyz)(\/|$)/;
const namedPages = /^(clusters|groups|queries)\/./;

/**
 * The user interface (docs/user-interface.md): its page under every path of its pages, and the files the page loads.
 */
export function userInterfaceRoutes({ app, names }: RouteContext, { built, enabled }: UserInterfaceParts): void {
  const base = names.gatewayPath;

  const serve = (request: FastifyRequest, reply: FastifyReply) => {
    const path = decoded(pathOf(request)).slice(base.length).replace(/^\//, '');
    if (noPages.test(path) && built?.files.has(path) !== true) throw notFound(base, path);
    if (!enabled) {
      throw new GatewayError('EG_NOT_FOUND', 'The user interface is switched off (uiConfiguration.enabled).');
    }
    if (built === null) return notBuilt(reply);
    const file = built.files.get(path);
    if (file !== undefined)
      return send(request, reply.headers({ 'Cross-Origin-Resource-Policy': 'same-origin' }), file);
    // A missing file is not a page: a browser that still has an old page must not take HTML for a script.
    if (/\.\w+$/.test(path) && !namedPages.test(path)) throw notFound(base, path);
    return send(request, reply.headers(pageHeaders), built.page);
  };
  const schema = { hide: true } as const;
  app.get(base, { schema }, serve);
  app.get(`${base}/*`, { schema }, serve);
}

function send(request: FastifyRequest, reply: FastifyReply, file: BuiltFile): FastifyReply {
  const { 'if-none-match': etags, 'accept-encoding': accepted } = request.headers;
  const encoding = encodingFor(accepted, file);
  // One tag for each form of the content (RFC 9110 §8.8.3.3).
  const tag = `"${file.tag}${encoding === null ? '' : `-${encoding}`}"`;
  reply.headers({
    'Cache-Control': file.immutable ? 'public, max-age=31536000, immutable' : 'no-cache',
    ETag: tag,
    Vary: 'Accept-Encoding',
  });
  if (etags?.split(',').some((each) => each.trim().replace(/^W\//, '') === tag)) {
    return reply.code(304).send();
  }
  if (encoding !== null) reply.header('Content-Encoding', encoding);
  const body = encoding === 'br' ? file.brotli : encoding === 'gzip' ? file.gzip : file.body;
  return reply.type(file.type).send(body);
}

/** The best encoding of a file that a browser takes (RFC 9110 §12.5.3); null: as it is. */
function encodingFor(acceptEncoding: string | undefined, file: BuiltFile): 'br' | 'gzip' | null {
  const encodings = new Set(
    (acceptEncoding ?? '')
      .split(',')
      .map((each) => each.trim().toLowerCase())
      .filter((each) => !/;\s*q=0(\.0*)?$/.test(each))
      .map((each) => each.replace(/\s*;.*$/, '')),
  );
  if (encodings.has('br') && file.brotli !== null) return 'br';
  return encodings.has('gzip') && file.gzip !== null ? 'gzip' : null;
}

function notFound(base: string, path: string): GatewayError {
  return new GatewayError('EG_NOT_FOUND', `There is no ${base}/${path} here.`);
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}

function notBuilt(reply: FastifyReply): FastifyReply {
  const text =
    'The user interface is not built. In a clone of the project: npm run build:ui, then start the gateway again.';
  return reply.code(503).type('text/plain; charset=utf-8').send(`${text}\n`);
}
