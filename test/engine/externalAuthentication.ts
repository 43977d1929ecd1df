import { type ChildProcess, spawn } from 'node:child_process';
import { Agent, fetch, type Response } from 'undici';
import type { Distribution } from './distribution.ts';
import { commandLine } from './javaOptions.ts';

/** What an engine answers to a submission without a token that is good. */
export interface Challenge {
  /** Where the user logs in; null where the engine renews the token without him. */
  readonly redirectServer: string | null;
  /** Where the token comes from. */
  readonly tokenServer: string;
  /** Cookies of the answer, for the polls. */
  readonly cookies: string;
  /** The cluster of the answer. */
  readonly cluster: string | null;
}

/** A token, and who was asked for it. */
interface Polled {
  readonly token: string;
  /** The cluster of each poll in turn, by `clusterOf`. */
  readonly clusters: readonly (string | null)[];
}

/** What Trino's clients do for their external authentication. */
export class ExternalAuthentication {
  readonly #url: string;
  readonly #dispatcher: Agent;

  /** @param authority certificate of the authority that the server's certificate comes from, in PEM */
  constructor(url: string, authority: string) {
    this.#url = url;
    this.#dispatcher = new Agent({ connect: { ca: authority } });
  }

  /** Submits without a token, or with one that has expired; null where the token is still good. */
  async challenge(token: string | null = null): Promise<Challenge | null> {
    const headers: Record<string, string> = token === null ? {} : { Authorization: `Bearer ${token}` };
    const response = await this.#ask(`${this.#url}/v1/statement`, { method: 'POST', body: 'SELECT 1', headers });
    await response.arrayBuffer();
    if (response.status === 200 && token !== null) return null;
    const header = response.headers.get('www-authenticate') ?? '';
    const [, redirectServer = null, tokenServer] =
      /^Bearer (?:x_redirect_server="([^"]+)", )?x_token_server="([^"]+)"$/.exec(header) ?? [];
    if (response.status !== 401 || tokenServer === undefined)
      throw new Error(`no external authentication: ${response.status} ${header}`);
    const cookies = response.headers.getSetCookie().map((line) => line.split(';', 1)[0]);
    return { redirectServer, tokenServer, cookies: cookies.join('; '), cluster: clusterOf(response) };
  }

  /** Polls for the token, which the server holds back until the user has logged in, and gives it back. */
  async poll({ tokenServer, cookies }: Challenge): Promise<Polled> {
    const clusters: (string | null)[] = [];
    let uri = tokenServer;
    for (;;) {
      const response = await this.#ask(uri, { headers: { Cookie: cookies } });
      clusters.push(clusterOf(response));
      const text = await response.text();
      const { token, nextUri, error } = JSON.parse(text) as { token?: string; nextUri?: string; error?: string };
      if (token !== undefined) {
        const deleted = await this.#ask(tokenServer, { method: 'DELETE', headers: { Cookie: cookies } });
        if (deleted.status !== 200) throw new Error(`the token was not taken back: ${await deleted.text()}`);
        await deleted.arrayBuffer();
        return { token, clusters };
      }
      if (nextUri === undefined) throw new Error(`no token: ${response.status} ${error ?? text}`);
      uri = nextUri;
    }
  }

  /** Rows of a query that is run with a token. */
  async query(sql: string, token: string): Promise<readonly (readonly unknown[])[]> {
    const headers = { Authorization: `Bearer ${token}` };
    const rows: (readonly unknown[])[] = [];
    let response = await this.#ask(`${this.#url}/v1/statement`, { method: 'POST', body: sql, headers });
    for (;;) {
      if (response.status !== 200) throw new Error(`HTTP ${response.status}: ${await response.text()}`);
      const page = (await response.json()) as { nextUri?: string; data?: unknown[][]; error?: { message: string } };
      if (page.error !== undefined) throw new Error(page.error.message);
      rows.push(...(page.data ?? []));
      if (page.nextUri === undefined) return rows;
      response = await this.#ask(page.nextUri, { headers });
    }
  }

  close(): Promise<void> {
    return this.#dispatcher.close();
  }

  #ask(url: string, init: { method?: string; body?: string; headers?: Record<string, string> } = {}) {
    return fetch(url, { ...init, dispatcher: this.#dispatcher, signal: AbortSignal.timeout(60_000) });
  }
}

/** Cluster of an answer, by `routing.explainHeader`; null where the gateway answered itself, or it was not asked. */
export function clusterOf({ headers }: Pick<Response, 'headers'>): string | null {
  return /cluster=([^;]+)/.exec(headers.get('X-Trino-Routing-Decision') ?? '')?.[1] ?? null;
}

/**
 * Runs a query with Trino's own command line, which asks for a login.
 * @param authorityFile PEM file
 * @param logIn given the address that the user is asked to open
 * @returns what it prints besides that address
 */
export async function runCommandLine(
  { java, cli }: Pick<Distribution, 'java' | 'cli'>,
  url: string,
  authorityFile: string,
  sql: string,
  logIn: (address: string) => Promise<unknown>,
): Promise<string> {
  const child: ChildProcess = spawn(
    java,
    [
      ...commandLine({ cli }),
      ...['--server', url],
      ...['--truststore-path', authorityFile, '--user', 'ann', '--external-authentication'],
      ...['--external-authentication-redirect-handler', 'PRINT', '--output-format', 'TSV', '--execute', sql],
    ],
    { stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let output = '';
  let login: Promise<unknown> | null = null;
  const read = (text: string) => {
    output += text;
    const address = /(https:\/\/\S+\/oauth2\/\S+)\s/.exec(output)?.[1];
    if (address !== undefined) login ??= logIn(address);
  };
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', read);
  const timer = setTimeout(() => child.kill('SIGKILL'), 60_000);
  const code = await new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status, signal) => resolve(status ?? signal));
  });
  clearTimeout(timer);
  await login;
  if (code !== 0) throw new Error(`the command line ended with ${code}: ${output}`);
  return output;
}
