import { createHmac, randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { startServer } from './gateway.ts';

/** A cluster whose pages ask for a login, as Trino's do with `web-ui.authentication.type=form`. */
export interface FormLoginEngine {
  readonly name: string;
  readonly url: string;
  /** An id of a query of this cluster. */
  readonly queryId: string;
  /** What it was asked: method, URL and `Cookie`, in order. */
  readonly requests: { readonly method: string; readonly url: string; readonly cookie: string }[];
}

const COOKIE = 'Engine-UI-Token';

/**
 * Starts a cluster that signs the cookie of its logins with a secret of its own. Answers have its name in `x-name`.
 * @param more lines of `Set-Cookie` on the answer to a login
 */
export async function startFormLoginEngine(name: string, more: readonly string[] = []): Promise<FormLoginEngine> {
  const secret = randomBytes(16);
  const token = `ann.${createHmac('sha256', secret).update('ann').digest('hex')}`;
  const queryId = `20261121_015745_00042_xxxx${name}`;
  const requests: { method: string; url: string; cookie: string }[] = [];
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    request.resume();
    const { method = '', url = '' } = request;
    const { cookie = '' } = request.headers;
    const [path = ''] = url.split('?');
    requests.push({ method, url, cookie });
    response.setHeader('x-name', name);
    const redirect = (location: string) => response.writeHead(303, { location }).end();
    if (path === '/v1/statement') response.end(JSON.stringify({ id: queryId, stats: { state: 'QUEUED' } }));
    else if (path === '/v1/info') response.end('{}');
    else if (path === '/ui/login') {
      response.setHeader('set-cookie', [`${COOKIE}=${token}; Version=1; Path=/ui; HttpOnly`, ...more]);
      redirect('/ui/');
    } else if (path === '/ui/logout') {
      response.setHeader('set-cookie', `${COOKIE}=delete; Path=/ui; Max-Age=0; HttpOnly`);
      redirect('/ui/login.html');
    } else if (path === '/ui/login.html' || /\.(?:js|css)$/.test(path)) response.end('<form>');
    else if (cookie.split('; ').includes(`${COOKIE}=${token}`)) response.end(`page of ${name}`);
    else if (path.startsWith('/ui/api/')) response.writeHead(401).end();
    else redirect(`/ui/login.html?${encodeURIComponent(url)}`);
  };
  const { url } = await startServer(answer);
  return { name, url, queryId, requests };
}
