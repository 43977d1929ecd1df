import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, gzip } from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import { otherGatewayPaths, type ProductNames } from '../model/names.ts';
import { version } from '../model/version.ts';
import type { ApiContext } from './apiContext.ts';
import { pathOf } from './errors.ts';
import { routes } from './routes.ts';
import { content } from './schemas.ts';

interface BuiltFile {
  readonly type: string;
  readonly body: Buffer;
  /** The same, compressed; null if that would not help. */
  readonly brotli: Buffer | null;
  readonly gzip: Buffer | null;
  /** Strong entity tag of the content (RFC 9110 §8.8.3), without its quotes. */
  readonly tag: string;
  /** Its name carries a digest of its content: it never changes. */
  readonly immutable: boolean;
}

/** The built user interface: the page, and the files it loads by their path below the gateway's. */
export interface BuiltUserInterface {
  readonly page: BuiltFile;
  readonly files: ReadonlyMap<string, BuiltFile>;
}

const types: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml',
  webp: 'image/webp',
  woff2: 'font/woff2',
};

/**
 * Reads what `scripts/buildUi.ts` has built, all of it: it is small, and what is in memory cannot be a wrong path.
 * @param sharesOrigin whether pages of engines are served at the same origin, of which administrators are warned
 * @returns null when nothing is built there
 */
export async function readBuiltFiles(
  directory: string,
  names: ProductNames,
  sharesOrigin = false,
): Promise<BuiltUserInterface | null> {
  const template = await readFile(join(directory, 'index.html'), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
    throw error;
  });
  if (template === null) return null;
  const entries = (await readdir(directory, { recursive: true, withFileTypes: true })).filter((each) => each.isFile());
  const all = new Map<string, Buffer>();
  for (const { parentPath, name } of entries) {
    const file = join(parentPath, name);
    all.set(relative(directory, file).replaceAll(sep, '/'), await readFile(file));
  }
  const files = new Map<string, BuiltFile>();
  for (const [path, body] of all) {
    const type = types[path.slice(path.lastIndexOf('.') + 1)];
    if (type === undefined || path === 'index.html') continue;
    files.set(path, {
      type,
      body,
      brotli: all.get(`${path}.br`) ?? null,
      gzip: all.get(`${path}.gz`) ?? null,
      tag: digest(body),
      immutable: path.startsWith('assets/'),
    });
  }
  return { page: await pageOf(template, names, sharesOrigin), files };
}

/** The page with what depends on the configuration: the path it lies under, the product's name, and the warning. */
async function pageOf(template: string, names: ProductNames, sharesOrigin: boolean): Promise<BuiltFile> {
  const html = template
    .replaceAll('__BASE__', `${names.gatewayPath}/`)
    .replaceAll('__PRODUCT__', names.product)
    .replaceAll('__VERSION__', version)
    .replaceAll('__SHARED_ORIGIN__', String(sharesOrigin));
  const body = Buffer.from(html);
  return {
    type: types.html as string,
    body,
    brotli: await promisify(brotliCompress)(body),
    gzip: await promisify(gzip)(body),
    tag: digest(body),
    immutable: false,
  };
}

function digest(body: Buffer): string {
  return createHash('sha256').update(body).digest('base64url').slice(0, 27);
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
export function userInterfaceRoutes({ app, names, ui, pages: built }: ApiContext): void {
  const base = names.gatewayPath;

  const serve = (request: FastifyRequest, reply: FastifyReply) => {
    const path = decoded(pathOf(request)).slice(base.length).replace(/^\//, '');
    if (noPages.test(path) && built?.files.has(path) !== true) throw notFound(base, path);
    if (!ui.enabled) {
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

/** True if there is a user interface to lead users to. */
export const hasPages = ({ pages, ui }: ApiContext): boolean => pages !== null && ui.enabled;

const style = `
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } dt { margin-top: 0.75rem; } dd { margin: 0; opacity: 0.8; } footer { margin-top: 2rem; opacity: 0.7; }
`;
const styleHash = createHash('sha256').update(style).digest('base64');

/** Sends a plain page of links, without scripts, to a browser. */
export function sendPlainPage(
  reply: FastifyReply,
  api: ApiContext,
  { title, text }: { readonly title: string; readonly text: string },
): FastifyReply {
  const { names, version } = api;
  const links: readonly (readonly [string, string, string])[] = [
    ...(hasPages(api) ? [[names.gatewayPath, 'User interface', 'clusters, rules and queries'] as const] : []),
    ['/gateway/backend/all', 'Clusters', 'all registered clusters as JSON'],
    ['/readyz?verbose', 'Health', 'whether the gateway takes requests, and what is unavailable'],
    ['/metrics', 'Metrics', 'for Prometheus'],
    ['/openapi.json', 'OpenAPI', 'the description of the REST API'],
  ];
  const list = links.map(([path, name, content]) => `<dt><a href="${path}">${name}</a></dt><dd>${content}</dd>`);
  const page = `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${names.product} Gateway</title><style>${style}</style></head>
<body>
<h1>${title}</h1>
<p>${text}</p>
<dl>
${list.join('\n')}
</dl>
<footer>engine-gateway ${version}</footer>
</body>
</html>
`;
  return reply
    .header('Content-Security-Policy', `default-src 'none'; style-src 'sha256-${styleHash}'; frame-ancestors 'none'`)
    .type('text/html; charset=utf-8')
    .send(page);
}

/**
 * `/`: leads people to the user interface; without one a plain page of links. Paths of the user interface under the other
 * product name lead there as well.
 */
export function indexPage(api: ApiContext): void {
  const { names } = api;
  const title = `${names.product} Gateway`;
  const text =
    'Send queries to <code>POST /v1/statement</code> of this address; they run on a healthy cluster of their routing group.';
  routes(api, 'pages')('GET', '/', {
    summary: 'Index page',
    description: 'Leads to the user interface where there is one.',
    responses: {
      200: content('HTML page.', Type.String(), 'text/html'),
      303: { description: 'To the user interface.', type: 'null' },
    },
    handle: ({ reply }) => {
      if (hasPages(api)) return reply.redirect(names.gatewayPath, 303);
      return sendPlainPage(reply, api, { title, text });
    },
  });
  const hidden = { schema: { hide: true }, config: { role: 'public' } } as const;
  for (const other of otherGatewayPaths(names)) {
    const lead = (request: FastifyRequest, reply: FastifyReply) =>
      reply.redirect(names.gatewayPath + request.url.slice(other.length), 308);
    api.app.get(other, hidden, lead);
    api.app.get(`${other}/*`, hidden, lead);
  }
}

/**
 * Returns the response to what no route serves: another method of a path it has with 405 and `Allow`, OPTIONS
 * with 204 and `Allow` (RFC 9110 §15.5.6, §9.3.7), any other path with 404. Before the body is read, so that its size
 * and form play no part; browsers get a page of links. To be called before any route is registered.
 */
export function unservedResponder(api: ApiContext) {
  const { app, names } = api;
  const served = new Map<string, { readonly pattern: RegExp; readonly methods: Set<string> }>();
  app.addHook('onRoute', ({ url, method }) => {
    const route = served.get(url) ?? { pattern: patternOf(url), methods: new Set(['OPTIONS']) };
    for (const name of [method].flat()) route.methods.add(name);
    served.set(url, route);
  });
  app.setNotFoundHandler(() => undefined);
  return (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const path = pathOf(request);
    // A path of a call is no name of a resource to its users.
    const exact = served.get(path);
    const matching = exact === undefined ? [...served.values()].filter(({ pattern }) => pattern.test(path)) : [exact];
    const methods = matching.flatMap((route) => [...route.methods]);
    if (methods.length === 0) {
      if (request.headers.accept?.includes('text/html') === true) {
        const text = 'Nothing is served under this path. These are:';
        return sendPlainPage(reply.code(404), api, { title: 'Not found', text });
      }
      const pages = hasPages(api) ? `the pages are at ${names.gatewayPath}, and ` : '';
      throw new GatewayError('EG_NOT_FOUND', `There is no ${path} here; ${pages}/openapi.json lists all calls.`);
    }
    const allow = [...new Set(methods)].sort().join(', ');
    reply.header('Allow', allow);
    if (request.method === 'OPTIONS') return reply.code(204).send();
    throw new GatewayError('EG_METHOD_NOT_ALLOWED', `${request.method} is not possible here; this path has ${allow}.`);
  };
}

/** Paths that a route's URL serves; `:name` is one segment, `*` the rest, a slash at the end makes no difference. */
function patternOf(url: string): RegExp {
  const segments = url
    .split('/')
    .map((segment) =>
      segment === '*' ? '.*' : segment.startsWith(':') ? '[^/]+' : segment.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'),
    );
  return new RegExp(`^${segments.join('/').replace(/\/$/, '')}/?$`);
}
