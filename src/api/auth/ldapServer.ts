import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import {
  Client,
  type ClientOptions,
  type Entry,
  Filter,
  InvalidCredentialsError,
  NoSuchObjectError,
  ResultCodeError,
  type SearchOptions,
  SizeLimitExceededError,
} from 'ldapts';
import { type LdapSettings, USER_MARK } from '../../config/ldapFile.ts';
import { MAX_GROUPS, type SourceResponse } from '../../gateway/user/groups/userGroups.ts';
import { GatewayError } from '../../model/errors.ts';
import { trustStoreConversion } from '../../model/javaKeyStore.ts';
import { settlesWithin } from '../../model/timeLimit.ts';

/** Time to connect, and for each response, in milliseconds. */
const TIMEOUT_MS = 5_000;

/** Connections at a time: more than users whose groups are looked up at a time, so that logins find room. */
const MAX_CONNECTIONS = 16;
const MAX_WAITING = 256;

/** Levels of groups of groups that are searched. */
const MAX_LEVELS = 10;
/** Groups that one response of the server holds. */
const PAGE_SIZE = 500;
const CUT = 'not all groups: the LDAP server limits the entries of a search (size limit)';
const MEMBERS_A_SEARCH = 50;

/** Search for groups (`userGroups.ldap`). */
export interface GroupSearch {
  /** Null: the user's entry names them. */
  readonly groupBaseDn: string | null;
  readonly groupFilter: string;
  readonly memberAttribute: string;
  readonly nameAttribute: string;
  readonly nested: boolean;
}

/** Result codes of a bind that is rejected for what the user is or sent (RFC 4511 §4.1.9); others are the server's. */
const rejectedBinds = new Set([8, 19, 32, 34, 48, 49, 50, 53]);

/**
 * An LDAP server (docs/authentication.md#names-and-passwords): finds users and checks their passwords by binding as
 * them.
 */
export class LdapServer {
  readonly #settings: LdapSettings;
  readonly #reload: () => Promise<LdapSettings | null>;
  readonly #options: ClientOptions;
  readonly #tls: ConnectionOptions;
  #connections = 0;
  /** Wake-up functions of uses that wait for a connection, in order. */
  readonly #waiting = new Set<() => void>();

  #adminPassword: string;

  private constructor(
    settings: LdapSettings,
    reload: () => Promise<LdapSettings | null>,
    options: ClientOptions,
    tls: ConnectionOptions,
  ) {
    this.#settings = settings;
    this.#reload = reload;
    this.#adminPassword = settings.ldapAdminPassword ?? '';
    this.#options = options;
    this.#tls = tls;
  }

  /**
   * Makes it from its file; connects when it is first needed.
   * @param reload reads the file again, for a password that has changed; null if the file has mistakes
   * @throws GatewayError EG_IMPOSSIBLE when the trust store cannot be used
   */
  static async create(settings: LdapSettings, reload: () => Promise<LdapSettings | null>): Promise<LdapServer> {
    const { ldapHost, ldapPort, useSsl, ldapTrustStorePath } = settings;
    const host = ldapHost.includes(':') ? `[${ldapHost}]` : ldapHost;
    const ca = ldapTrustStorePath === null ? null : await readAuthorities(ldapTrustStorePath);
    const tls: ConnectionOptions = {
      // StartTLS takes over a socket that does not know the name it was opened with.
      host: ldapHost,
      ...(isIP(ldapHost) === 0 ? { servername: ldapHost } : {}),
      ...(ca === null ? {} : { ca }),
    };
    return new LdapServer(
      settings,
      reload,
      {
        url: `${useSsl ? 'ldaps' : 'ldap'}://${host}:${ldapPort}`,
        timeout: TIMEOUT_MS,
        connectTimeout: TIMEOUT_MS,
        // Options of TLS make the client begin with it, which StartTLS does not.
        ...(useSsl ? { tlsOptions: tls } : {}),
      },
      tls,
    );
  }

  /** @throws GatewayError EG_IDENTITY_UNAVAILABLE when it is unavailable */
  async check(name: string, password: string): Promise<boolean> {
    // Without a password a bind is an anonymous one and succeeds (RFC 4513 §5.1.2).
    if (name === '' || password === '') return false;
    const { ldapUserDnPattern } = this.#settings;
    const userDn =
      ldapUserDnPattern === null ? ((await this.#find(name))?.dn ?? null) : fillDn(ldapUserDnPattern, name);
    // A name without entry takes a bind as well, so that the time of the response does not show which names there are.
    const dn = userDn ?? `cn=${randomUUID()},${this.#settings.ldapUserBaseDn ?? ''}`;
    return this.#connected(async (client) => {
      try {
        await client.bind(dn, password);
        return userDn !== null;
      } catch (error) {
        if (error instanceof ResultCodeError && rejectedBinds.has(error.code)) return false;
        throw error;
      }
    });
  }

  /**
   * The text of a user's privileges; null for an unknown user.
   * @throws GatewayError EG_IDENTITY_UNAVAILABLE when it is unavailable
   */
  async privilegesOf(name: string): Promise<string | null> {
    const entry = await this.#find(name);
    return entry === null ? null : valuesOf(entry, this.#settings.ldapGroupMemberAttribute).join('_');
  }

  /**
   * Names of the groups of a user, by a search or by the attribute of the user's entry, with a note where these are not all of
   * them; empty for an unknown user.
   * @throws GatewayError EG_IDENTITY_UNAVAILABLE when it is unavailable
   */
  async groupsOf(name: string, search: GroupSearch): Promise<SourceResponse> {
    return this.#connected(async (client) => {
      const entry = await this.#findBy(client, name);
      if (entry === null) return { groups: [] };
      if (search.groupBaseDn === null) {
        return { groups: valuesOf(entry, this.#settings.ldapGroupMemberAttribute).map(firstName) };
      }
      return this.#searchGroups(client, entry.dn, search.groupBaseDn, search);
    });
  }

  async #searchGroups(client: Client, userDn: string, base: string, search: GroupSearch): Promise<SourceResponse> {
    const { groupFilter, memberAttribute, nameAttribute, nested } = search;
    const names: string[] = [];
    const visited = new Set<string>();
    let note: string | null = null;
    let members: readonly string[] = [userDn];
    for (let level = 0; level < MAX_LEVELS && members.length > 0; level += 1) {
      const next: string[] = [];
      for (let from = 0; from < members.length && visited.size < MAX_GROUPS; from += MEMBERS_A_SEARCH) {
        const ofMembers = members
          .slice(from, from + MEMBERS_A_SEARCH)
          .map((dn) => `(${memberAttribute}=${Filter.escape(dn)})`);
        const { entries, isCut } = await entriesOf(client, base, {
          scope: 'sub',
          filter: `(&${groupFilter}(|${ofMembers.join('')}))`,
          attributes: ['dn', nameAttribute],
          timeLimit: TIMEOUT_MS / 1000,
        });
        if (isCut) note ??= CUT;
        for (const group of entries) {
          if (visited.has(group.dn)) continue;
          if (visited.size >= MAX_GROUPS) break;
          visited.add(group.dn);
          next.push(group.dn);
          names.push(...valuesOf(group, nameAttribute).slice(0, 1));
        }
      }
      members = nested ? next : [];
    }
    if (visited.size >= MAX_GROUPS) note ??= `not all groups: ${MAX_GROUPS} of one user count`;
    return note === null ? { groups: names } : { groups: names, note };
  }

  /** The one entry of a user; null when it is missing, or more than one. */
  async #find(name: string): Promise<Entry | null> {
    return this.#connected((client) => this.#findBy(client, name));
  }

  async #findBy(client: Client, name: string): Promise<Entry | null> {
    const { ldapUserSearch, ldapUserBaseDn, ldapUserDnPattern, ldapGroupMemberAttribute } = this.#settings;
    const attributes = ['dn', ldapGroupMemberAttribute];
    await this.#bindForSearch(client);
    const [base, options] =
      ldapUserSearch === null
        ? [fillDn(ldapUserDnPattern ?? '', name), { scope: 'base' as const, filter: '(objectClass=*)' }]
        : [ldapUserBaseDn ?? '', { scope: 'sub' as const, filter: fillFilter(ldapUserSearch, name), sizeLimit: 2 }];
    try {
      const { searchEntries } = await client.search(base, { ...options, attributes, timeLimit: TIMEOUT_MS / 1000 });
      return searchEntries.length === 1 ? (searchEntries[0] ?? null) : null;
    } catch (error) {
      if (error instanceof NoSuchObjectError) return null;
      // Size limit exceeded: the name fits several entries.
      if (error instanceof ResultCodeError && error.code === 4) return null;
      throw error;
    }
  }

  async #bindForSearch(client: Client): Promise<void> {
    const { ldapAdminBindDn } = this.#settings;
    if (ldapAdminBindDn === null) return;
    const used = this.#adminPassword;
    try {
      await client.bind(ldapAdminBindDn, used);
    } catch (error) {
      if (!(error instanceof InvalidCredentialsError)) throw error;
      this.#adminPassword = (await this.#reload())?.ldapAdminPassword ?? used;
      if (this.#adminPassword === used) throw new Error('the server rejects ldapAdminBindDn with ldapAdminPassword');
      await client.bind(ldapAdminBindDn, this.#adminPassword);
    }
  }

  /** Waits for a connection that may be opened. The place of one that ends goes to the first that waits. */
  async #takePlace(): Promise<void> {
    if (this.#connections < MAX_CONNECTIONS) {
      this.#connections += 1;
      return;
    }
    if (this.#waiting.size >= MAX_WAITING) throw away(new Error(`${MAX_WAITING} uses wait for a connection`));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#waiting.add(resolve);
    if (await settlesWithin(promise, TIMEOUT_MS)) return;
    this.#waiting.delete(resolve);
    throw away(new Error(`no connection became free within ${TIMEOUT_MS} ms`));
  }

  async #connected<T>(use: (client: Client) => Promise<T>): Promise<T> {
    await this.#takePlace();
    const client = new Client(this.#options);
    try {
      // Options of its own: the client writes the socket into them.
      // The client limits its requests, not the handshake of TLS.
      if (this.#settings.useTls && !(await settlesWithin(client.startTLS({ ...this.#tls }), TIMEOUT_MS))) {
        throw new Error(`no TLS within ${TIMEOUT_MS} ms`);
      }
      return await use(client);
    } catch (error) {
      throw away(error);
    } finally {
      const [next] = this.#waiting;
      if (next === undefined) this.#connections -= 1;
      else {
        this.#waiting.delete(next);
        next();
      }
      await client.unbind().catch(() => undefined);
    }
  }
}

/** The entries that a search finds, `MAX_GROUPS` and a page at most, and whether the server has more and does not give them. */
async function entriesOf(
  client: Client,
  base: string,
  options: SearchOptions,
): Promise<{ readonly entries: readonly Entry[]; readonly isCut: boolean }> {
  const entries: Entry[] = [];
  try {
    for await (const page of client.searchPaginated(base, { ...options, paged: { pageSize: PAGE_SIZE } })) {
      entries.push(...page.searchEntries);
      if (entries.length >= MAX_GROUPS) break;
    }
    return { entries, isCut: false };
  } catch (error) {
    if (!(error instanceof SizeLimitExceededError)) throw error;
    // Entries that came with this error are lost; with a size limit in the request they are returned.
    const { searchEntries } = await client.search(base, { ...options, sizeLimit: MAX_GROUPS });
    return { entries: searchEntries, isCut: true };
  }
}

/** Values of an attribute, whose letter case does not matter. */
function valuesOf(entry: Entry, attribute: string): readonly string[] {
  const values = Object.entries(entry).find(([key]) => key.toLowerCase() === attribute.toLowerCase())?.[1] ?? [];
  return [values].flat().map((value) => value.toString());
}

/** The value that a DN begins with (RFC 4514 §2), e.g. `etl` of `cn=etl,ou=groups`; a text that is no DN as it is. */
function firstName(dn: string): string {
  const first = /^[A-Za-z0-9.-]+=((?:\\.|[^\\,+])*)/.exec(dn)?.[1];
  if (first === undefined) return dn;
  return first.replace(/(?:\\[0-9A-Fa-f]{2})+|\\(.)/g, (escaped, character?: string) =>
    character === undefined ? Buffer.from(escaped.replaceAll('\\', ''), 'hex').toString('utf8') : character,
  );
}

/** Puts a name into a filter (RFC 4515 §3): what has a meaning there loses it. */
function fillFilter(filter: string, name: string): string {
  const escaped = Filter.escape(name);
  return filter.replaceAll(USER_MARK, () => escaped);
}

/** Puts a name into a DN (RFC 4514 §2.4): what has a meaning there loses it. */
function fillDn(pattern: string, name: string): string {
  const escaped = name
    .replace(/[\\,+"<>;=]/g, (character) => `\\${character}`)
    .replaceAll('\0', '\\00')
    .replace(/^[ #]/, (character) => `\\${character}`)
    .replace(/ $/, '\\ ');
  return pattern.replaceAll(USER_MARK, () => escaped);
}

/** Codes of Node.js for certificates that are not accepted (https://nodejs.org/api/tls.html#x509-certificate-error-codes). */
const certificateError =
  /^(CERT_|CRL_|ERR_TLS_CERT_|DEPTH_ZERO_|SELF_SIGNED_CERT|UNABLE_TO_|HOSTNAME_MISMATCH|INVALID_(CA|PURPOSE))/;

function away(cause: unknown): GatewayError {
  const code = String((cause as { code?: unknown } | null)?.code ?? '');
  const message = certificateError.test(code)
    ? `The LDAP server's certificate is not accepted (${code}): ldapTrustStorePath must hold its authority, and ldapHost be a name in it.`
    : 'The LDAP server does not answer properly; try again soon.';
  return new GatewayError('EG_IDENTITY_UNAVAILABLE', message, { cause });
}

async function readAuthorities(path: string): Promise<string> {
  const field = 'ldapTrustStorePath';
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (cause) {
    const why = (cause as NodeJS.ErrnoException).code;
    throw new GatewayError('EG_IMPOSSIBLE', `${field}: ${path} cannot be read: ${why}.`, { field, cause });
  }
  const text = bytes.toString('utf8');
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text;
  const message = `${field}: ${path} holds no certificate in PEM form; convert a Java key store: ${trustStoreConversion(path)}`;
  throw new GatewayError('EG_IMPOSSIBLE', message, { field });
}
