import { Agent, fetch, type Response } from 'undici';

/** An answer on the way to a page. */
export interface Visit {
  readonly url: URL;
  readonly status: number;
  readonly headers: Response['headers'];
}

/** Where a browser stands. */
export interface Page {
  /** Also of an address that is excluded. */
  readonly url: URL;
  /** 0 where it was not asked. */
  readonly status: number;
  readonly text: string;
  /** All answers since the last click, redirects first. */
  readonly visits: readonly Visit[];
}

interface Cookie {
  readonly name: string;
  readonly value: string;
  readonly host: string;
  readonly path: string;
  readonly secure: boolean;
  readonly expires: number;
}

const MAX_REDIRECTS = 12;

/** What of a browser a login needs: it follows redirects and keeps cookies by RFC 6265 (host, path, Secure, expiry). */
export class Browser {
  #cookies: readonly Cookie[] = [];
  readonly #dispatcher: Agent;
  readonly #stopsAt: (url: URL) => boolean;

  /**
   * @param authority certificate of the authority that servers' certificates come from, in PEM
   * @param stopsAt addresses that it is sent to but does not ask
   */
  constructor(authority?: string, stopsAt: (url: URL) => boolean = () => false) {
    this.#dispatcher = new Agent(authority === undefined ? {} : { connect: { ca: authority } });
    this.#stopsAt = stopsAt;
  }

  /** Asks for an address, or sends a form there, and follows redirects. */
  async open(address: string | URL, form: URLSearchParams | null = null): Promise<Page> {
    const visits: Visit[] = [];
    let url = new URL(address);
    let body = form;
    while (visits.length < MAX_REDIRECTS) {
      if (this.#stopsAt(url)) return { url, status: 0, text: '', visits };
      const response: Response = await fetch(url, {
        redirect: 'manual',
        dispatcher: this.#dispatcher,
        headers: { Cookie: this.#sent(url) },
        ...(body === null ? {} : { method: 'POST', body }),
      });
      this.#keep(url, response.headers.getSetCookie());
      visits.push({ url, status: response.status, headers: response.headers });
      const text = await response.text();
      const location = response.headers.get('location');
      if (location === null) return { url, status: response.status, text, visits };
      url = new URL(location, url);
      // Each redirect of a login makes a GET of a POST (RFC 9110 §15.4.4).
      body = null;
    }
    throw new Error(`${address} leads round in circles`);
  }

  /** Names of the cookies that a server would be sent. */
  cookieNames(url: string | URL): readonly string[] {
    return this.#matching(new URL(url)).map(({ name }) => name);
  }

  close(): Promise<void> {
    return this.#dispatcher.close();
  }

  #matching(url: URL): readonly Cookie[] {
    const below = (path: string) => url.pathname === path || url.pathname.startsWith(path.replace(/\/?$/, '/'));
    return this.#cookies.filter(
      ({ host, path, secure, expires }) =>
        host === url.hostname && below(path) && (!secure || url.protocol === 'https:') && Date.now() < expires,
    );
  }

  #sent(url: URL): string {
    return this.#matching(url)
      .map(({ name, value }) => `${name}=${value}`)
      .join('; ');
  }

  #keep(url: URL, lines: readonly string[]): void {
    for (const line of lines) {
      const [pair = '', ...attributes] = line.split(';').map((part) => part.trim());
      const attribute = (name: string) =>
        attributes.find((one) => one.toLowerCase() === name || one.toLowerCase().startsWith(`${name}=`));
      const textOf = (name: string) => attribute(name)?.slice(name.length + 1);
      const [maxAge, date] = [textOf('max-age'), textOf('expires')];
      const cookie: Cookie = {
        name: pair.slice(0, pair.indexOf('=')),
        value: pair.slice(pair.indexOf('=') + 1),
        host: url.hostname,
        path: textOf('path') ?? url.pathname.replace(/(.)\/[^/]*$/, '$1'),
        secure: attribute('secure') !== undefined,
        expires:
          maxAge !== undefined ? Date.now() + Number(maxAge) * 1000 : date !== undefined ? Date.parse(date) : Infinity,
      };
      const others = this.#cookies.filter(
        ({ name, host, path }) => name !== cookie.name || host !== cookie.host || path !== cookie.path,
      );
      this.#cookies = [...others, cookie];
    }
  }
}
