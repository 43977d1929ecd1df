import { type RawResponse, send } from './rawHttp.ts';

interface StoredCookie {
  readonly name: string;
  readonly value: string;
  readonly path: string;
}

/** How a browser asks: for a page that the user opens, or for the data of an open one. */
export interface Asking {
  readonly method?: string;
  readonly headers?: readonly string[];
}

/** A client that keeps cookies as browsers do: by name and path, sent below the path (RFC 6265 §5.1.4, §5.3, §5.4). */
export class CookieBrowser {
  readonly #kept = new Map<string, StoredCookie>();

  /** Names of the cookies that it keeps. */
  get names(): readonly string[] {
    return [...this.#kept.values()].map(({ name }) => name).sort();
  }

  /** Value of a cookie; undefined for none. */
  value(name: string): string | undefined {
    return [...this.#kept.values()].find((kept) => kept.name === name)?.value;
  }

  /** Keeps a line of `Set-Cookie`, in place of one of the same name and path. */
  keep(line: string): void {
    const [pair = '', ...attributes] = line.split(';').map((part) => part.trim());
    const attribute = (key: string) =>
      attributes.find((one) => one.toLowerCase().startsWith(`${key}=`))?.slice(key.length + 1);
    const equals = pair.indexOf('=');
    const name = pair.slice(0, equals);
    const path = attribute('path') ?? '/';
    if (attribute('max-age') === '0') this.#kept.delete(`${name} ${path}`);
    else this.#kept.set(`${name} ${path}`, { name, value: pair.slice(equals + 1), path });
  }

  /** Asks for one path, without following redirects. */
  async ask(base: string, path: string, { method = 'GET', headers = [] }: Asking = {}): Promise<RawResponse> {
    const [plain = ''] = path.split('?');
    const cookies = [...this.#kept.values()]
      .filter((kept) => plain === kept.path || plain.startsWith(`${kept.path.replace(/\/$/, '')}/`))
      .map(({ name, value }) => `${name}=${value}`);
    const lines = cookies.length === 0 ? headers : [...headers, 'Cookie', cookies.join('; ')];
    const answer = await send(base, path, { method, headers: lines });
    for (const line of [answer.headers['set-cookie'] ?? []].flat()) this.keep(line);
    return answer;
  }
}
