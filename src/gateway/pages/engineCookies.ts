import { createHash } from 'node:crypto';
import type { ProductNames } from '../../model/names.ts';
import { isHeader } from '../../model/rawHeaders.ts';
import type { ClusterIdentities, ClusterIdentity } from './clusterIdentities.ts';
import type { EngineCookieNames } from './engineCookieName.ts';

/** Characters of name and value together that browsers keep (RFC 6265bis §5.7); engines fill their cookies up to it. */
const MAX_PAIR = 4096;
/** Characters of the digest in front of the rest of a value, which identifies what it is the rest of. */
const DIGEST_LENGTH = 12;
/** Longer cookies are not kept by browsers whatever is done. */
const MAX_VALUE = 2 * (MAX_PAIR - 512);

/**
 * Keeps the cookies of clusters apart, which have one origin and the same names behind the gateway: a browser keeps each
 * under a name that holds its cluster's key, and only that cluster gets it back, under its own name
 * (docs/routing.md#cookies-of-engines).
 */
export class EngineCookies {
  readonly #names: EngineCookieNames;
  readonly #identities: ClusterIdentities;
  readonly #isEngines: ProductNames['isEngineCookie'];

  constructor(names: EngineCookieNames, identities: ClusterIdentities, { isEngineCookie }: ProductNames) {
    this.#names = names;
    this.#identities = identities;
    this.#isEngines = isEngineCookie;
  }

  /**
   * The header lines of a request for a cluster: of clusters' cookies its own ones, under their own names.
   * @param lines names and values in turn
   * @param isPage whether the path is one of an engine's pages or logins. There a cookie of an engine that names no cluster
   *   may be any cluster's, such as one of before cookies were kept apart, and goes to none
   */
  forCluster(lines: readonly string[], cluster: ClusterIdentity, isPage: boolean): readonly string[] {
    let pairs: string[] | null = null;
    for (let index = 0; index < lines.length; index += 2) {
      if (!isHeader(lines[index] as string, 'cookie')) continue;
      pairs ??= [];
      for (const pair of (lines[index + 1] as string).split(';')) pairs.push(pair.trim());
    }
    if (pairs === null) return lines;
    const pieces = this.#chosen(pairs, cluster, isPage);
    if (pieces === null) return lines;
    const others = lines.filter((_, index) => !isHeader(lines[index - (index % 2)] as string, 'cookie'));
    return pieces.length === 0 ? others : [...others, 'Cookie', pieces.join('; ')];
  }

  /**
   * A `Set-Cookie` line of a cluster as lines for the client; two where the value is too long beside the longer name.
   * @returns none for a cookie without a name: browsers would send it back as if its value were name and value
   */
  forClient(line: string, cluster: ClusterIdentity): readonly string[] {
    const semicolon = line.indexOf(';');
    const pair = semicolon < 0 ? line : line.slice(0, semicolon);
    const attributes = semicolon < 0 ? '' : line.slice(semicolon);
    const equals = pair.indexOf('=');
    const name = pair.slice(0, Math.max(equals, 0)).trim();
    const value = pair.slice(equals + 1).trim();
    if (name === '' || value.length > MAX_VALUE) return [];
    const key = this.#identities.keyOf(cluster);
    const cookieName = this.#names.nameOf({ key, name, rest: false });
    const room = MAX_PAIR - cookieName.length;
    if (value.length <= room) return [`${cookieName}=${value}${attributes}`];
    const first = value.slice(0, room);
    const more = `${this.#names.nameOf({ key, name, rest: true })}=${digestOf(first)}${value.slice(room)}`;
    return [`${cookieName}=${first}${attributes}`, `${more}${attributes}`];
  }

  /** The pairs that go to the cluster; null where all do as they are. */
  #chosen(pairs: readonly string[], cluster: ClusterIdentity, isPage: boolean): string[] | null {
    const chosen: string[] = [];
    const rests = new Map<string, string>();
    const own: { readonly name: string; readonly value: string }[] = [];
    let key: string | null = null;
    let changed = false;
    for (const pair of pairs) {
      const equals = pair.indexOf('=');
      const rawName = pair.slice(0, Math.max(equals, 0)).trim();
      const engineCookie = this.#names.read(rawName);
      if (engineCookie === null) {
        if (isPage && this.#isEngines(rawName)) changed = true;
        else if (pair !== '') chosen.push(pair);
        continue;
      }
      changed = true;
      key ??= this.#identities.keyOf(cluster);
      if (engineCookie.key !== key) continue;
      const value = pair.slice(equals + 1);
      if (engineCookie.rest) rests.set(engineCookie.name, value);
      else own.push({ name: engineCookie.name, value });
    }
    if (!changed) return null;
    for (const { name, value } of own) chosen.push(`${name}=${value}${restOf(value, rests.get(name))}`);
    return chosen;
  }
}

/** The rest of a value; empty where what was kept is none, or is left over from a value before. */
function restOf(first: string, rest: string | undefined): string {
  return rest?.startsWith(digestOf(first)) === true ? rest.slice(DIGEST_LENGTH) : '';
}

function digestOf(first: string): string {
  return createHash('sha256').update(first).digest('base64url').slice(0, DIGEST_LENGTH);
}
