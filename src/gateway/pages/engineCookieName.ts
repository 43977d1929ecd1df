import { IDENTITY_FORM } from './clusterIdentities.ts';

/** Prefixes that browsers give a meaning (RFC 6265bis §4.1.3): they stay in front. */
const BROWSER_PREFIX = '__(?:Host-Http|Host|Http|Secure)-';
const browserPrefix = new RegExp(`^${BROWSER_PREFIX}`, 'i');

/** Parts of the name under which a browser keeps a cluster's cookie. */
export interface KeptName {
  /** Key of the cluster that set it. */
  readonly key: string;
  /** The name that the cluster gave it. */
  readonly name: string;
  /** Whether it holds the rest of a value that is too long for one cookie. */
  readonly rest: boolean;
}

/**
 * The names under which browsers keep clusters' cookies: `EG-{key}~{name}`, and `EG-{key}+{name}` for the rest of a long
 * value, with what browsers give a meaning in front (docs/routing.md#cookies-of-engines).
 */
export class EngineCookieNames {
  readonly #prefix: string;
  readonly #form: RegExp;

  /** @param prefix `ProductNames.engineCookiePrefix` */
  constructor(prefix: string) {
    this.#prefix = prefix;
    this.#form = new RegExp(`^(${BROWSER_PREFIX})?${prefix}(${IDENTITY_FORM})([~+])(.+)$`, 'i');
  }

  /** The name under which a browser keeps a cookie of the cluster that has the key. */
  nameOf({ key, name, rest }: KeptName): string {
    const before = browserPrefix.exec(name)?.[0] ?? '';
    return `${before}${this.#prefix}${key}${rest ? '+' : '~'}${name.slice(before.length)}`;
  }

  /** What a kept name says; null for the name of any other cookie. */
  read(text: string): KeptName | null {
    // Nearly all others: neither the prefix nor one of browsers.
    if (!text.startsWith(this.#prefix) && !text.startsWith('__')) return null;
    const [, before = '', key, kind, name] = this.#form.exec(text) ?? [];
    return key === undefined || name === undefined ? null : { key, name: before + name, rest: kind === '+' };
  }
}
