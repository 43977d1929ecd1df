import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { otherGatewayPaths, type ProductNames } from '../model/names.ts';
import { type RouteContext, routes } from './routes.ts';
import { content } from './schemas.ts';

export interface IndexPage {
  readonly names: ProductNames;
  readonly version: string;
  /** True if there is a user interface to lead people to instead. */
  readonly hasPages: boolean;
}

const style = `
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 3rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } dt { margin-top: 0.75rem; } dd { margin: 0; opacity: 0.8; } footer { margin-top: 2rem; opacity: 0.7; }
`;
const styleHash = createHash('sha256').update(style).digest('base64');

/** Sends a plain page of links, without scripts, to a browser. */
export function sendPlainPage(
  reply: FastifyReply,
  { names, version, hasPages }: IndexPage,
  { title, text }: { readonly title: string; readonly text: string },
): FastifyReply {
  const links: readonly (readonly [string, string, string])[] = [
    ...(hasPages ? [[names.gatewayPath, 'User interface', 'clusters, rules and queries'] as const] : []),
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
export function indexPage(api: RouteContext, options: IndexPage): void {
  const { names, hasPages } = options;
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
      if (hasPages) return reply.redirect(names.gatewayPath, 303);
      return sendPlainPage(reply, options, { title, text });
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
