import { readFile, stat } from 'node:fs/promises';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { followFiles } from '../../../config/followedFiles.ts';
import type { GatewayConfig } from '../../../config/gatewayConfig.ts';
import type { Clock } from '../../../model/clock.ts';
import { GatewayError } from '../../../model/errors.ts';
import { headerValues, type RawHeaders } from '../../../model/http.ts';
import type { GroupSourceName, Membership, SourceGroups } from '../../../model/membership.ts';
import { membershipOf } from '../../../model/membership.ts';
import type { ProductNames } from '../../../model/names.ts';
import type { RequestUser } from '../../../model/requestUser.ts';
import { inTime, within } from '../../../model/timeLimit.ts';
import { plainAddress, type TrustPeer } from '../../headers/requestHeaders.ts';
import type { UserNamespace } from '../tokens.ts';
import { type Claims, claimOf, EvidentUser, type UserEvidence, type UserSource, userName } from '../userExtractor.ts';
import { certificateValues, type MappedUsers } from '../userMapping.ts';

export interface Asker {
  /** Null: no user was recognized. */
  readonly user: string | null;
  /**
   * Reason that the name is unverified, a sentence for users; null if it was verified, or if the configuration lists
   * its source in `userGroups.claimedUsers`.
   */
  readonly doubt: string | null;
  readonly evidence: UserEvidence;
  readonly headers: RawHeaders;
  readonly address: string | undefined;
}

/** Groups from a source, with a note if they are missing or stale. */
export type SourceResponse = Pick<SourceGroups, 'groups' | 'note'>;

/** A source of user groups (docs/identity.md#sources). */
export interface GroupSource {
  readonly name: GroupSourceName;
  /** Returns the groups of a user; synchronously if possible. Neither throws nor rejects. */
  groupsOf(asker: Asker): SourceResponse | Promise<SourceResponse>;
  /** Returns the groups without network access, for described requests; absent if that is `groupsOf`. */
  describedGroupsOf?(asker: Asker): SourceResponse;
}

type Settings = NonNullable<GatewayConfig['userGroups']>;

/** Settings `userGroups.token` and `userGroups.userInfo`. */
type GroupClaimSettings = NonNullable<Settings['token']>;

/** Maximum number of groups of a user from one source; further ones are dropped. */
export const MAX_GROUPS = 1_000;

export const MAX_GROUP_LENGTH = 512;

/** The text if it is a valid group name: as for users, up to `MAX_GROUP_LENGTH`; null otherwise. */
export function groupName(value: unknown): string | null {
  const name = userName(typeof value === 'string' ? value.trim() : value);
  return name === null || name.length > MAX_GROUP_LENGTH ? null : name;
}

/** Valid group names, without duplicates, at most `MAX_GROUPS`. */
export function groupNames(values: readonly unknown[]): readonly string[] {
  const names = new Set<string>();
  for (const value of values) {
    const name = groupName(value);
    if (name !== null && names.size < MAX_GROUPS) names.add(name);
  }
  return [...names];
}

/** Result of a lookup for an unverified name; null for a verified one. */
export function unbelieved({ user, doubt }: Asker): SourceResponse | null {
  if (user === null) return none('no user was recognised');
  return doubt === null ? null : none(doubt);
}

/** Groups from a claim of the user's JWT. */
export function tokenClaimGroups(settings: GroupClaimSettings): GroupSource {
  return {
    name: 'token',
    groupsOf({ doubt, evidence: { source, claims, groupNamespace = null } }) {
      if (claims === null) return none(`the user does not come from a JWT (${source})`);
      return doubt === null ? claimedGroups(claims, settings, groupNamespace) : none(doubt);
    },
  };
}

/**
 * Groups from a claim of the provider's UserInfo response for the user's token (OpenID Connect).
 * @param names valid group names of the provider; null: any
 */
export function userInfoGroups(settings: GroupClaimSettings, names: UserNamespace | null): GroupSource {
  return {
    name: 'userInfo',
    groupsOf({ evidence: { source, userInfo } }) {
      if (userInfo === undefined) return none(`the user does not come from a token exchange (${source})`);
      return claimedGroups(userInfo, settings, names);
    },
  };
}

/** Groups of a service account from the Kubernetes API server. */
export const tokenReviewGroups: GroupSource = {
  name: 'tokenReview',
  groupsOf({ evidence: { source, kubernetesGroups } }) {
    if (kubernetesGroups === undefined) {
      return none(`the user does not come from a token of a service account (${source})`);
    }
    return { groups: groupNames(kubernetesGroups) };
  },
};

/** Groups from a field of the client certificate. @param field as `clientCertificateIdentityField` */
export function certificateGroups(field: string): GroupSource {
  return {
    name: 'certificate',
    groupsOf({ evidence: { source, certificate } }) {
      if (certificate === undefined) return none(`the user does not come from a client certificate (${source})`);
      return { groups: groupNames(certificateValues(certificate, field)) };
    },
  };
}

/**
 * Groups from a header that proxies in `server.trustedProxies` set; ignored from others.
 * @param isProxy true for configured addresses; trusting all peers would allow arbitrary groups
 */
export function headerGroups(
  settings: NonNullable<Settings['header']>,
  isProxy: TrustPeer,
  names: ProductNames,
): GroupSource {
  const { name, delimiter } = settings;
  const key = names.ownHeader(name).toLowerCase();
  const describedGroupsOf = ({ headers }: Asker): SourceResponse => {
    const lines = headerValues(headers, key);
    if (lines.length === 0) return none(`there is no header ${name}`);
    return { groups: groupNames(lines.flatMap((line) => line.split(delimiter))) };
  };
  return {
    name: 'header',
    groupsOf: (asker) =>
      isProxy(plainAddress(asker.address))
        ? describedGroupsOf(asker)
        : none('the connection is not of a proxy in server.trustedProxies'),
    describedGroupsOf,
  };
}

/**
 * The groups in a claim, with the prefix of their issuer; without groups of another issuer
 * (docs/request-user.md#several-issuers), which a note counts.
 * @param names null: any
 */
export function claimedGroups(
  claims: Claims,
  { claim, delimiter }: GroupClaimSettings,
  names: UserNamespace | null,
): SourceResponse {
  const value = claimOf(claims, claim);
  if (value === undefined || value === null) return none(`there is no claim ${claim}`);
  const values: unknown = typeof value === 'string' ? value.split(delimiter) : value;
  if (!Array.isArray(values)) return none(`the claim ${claim} is neither a list nor a text`);
  const named = groupNames(values);
  if (names === null) return { groups: named };
  const own = named.flatMap((group) => names.nameOf(group) ?? []);
  const foreign = named.length - own.length;
  const groups = names.prefix === '' ? own : groupNames(own);
  if (foreign === 0) return { groups };
  const subject = foreign === 1 ? 'one group is' : `${foreign} groups are`;
  return { groups, note: `${subject} left out: the names begin with the groupPrefix of another issuer` };
}

function none(note: string): SourceResponse {
  return { groups: [], note };
}

/** Limits of lookups (`userGroups`). */
type LookupSettings = Pick<Settings, 'timeout' | 'cacheDuration' | 'keepLastKnown' | 'maxCachedUsers'>;

const MAX_LOOKUPS = 64;
/** Maximum number of users with only a cached failure; separate, so that they do not evict others. */
const MAX_FAILURES = 1_000;
/** Time after a failure without a retry for the same user, milliseconds. */
const RETRY_MS = 5_000;
/** Minimum interval of log messages about failures, milliseconds. */
const QUIET_MS = 30_000;
const MAX_CAUSE_LENGTH = 500;

interface Failure {
  readonly until: number;
  readonly why: string;
}

interface Entry {
  readonly response: SourceResponse;
  readonly at: number;
  /** Null: the latest request succeeded. */
  readonly failed: Failure | null;
}

/**
 * Groups of an LDAP directory: one lookup per user at a time, with a cache. The last known groups count while the
 * directory is unavailable. A query never waits longer than the time limit; the lookup continues for the next one.
 * @param lookUp groups of a user, with a note if they are incomplete, with its own timeout; rejects if the directory is
 * unavailable, with a sentence for users
 */
export function ldapGroups(
  lookUp: (user: string) => Promise<SourceResponse>,
  { timeout, cacheDuration, keepLastKnown, maxCachedUsers }: LookupSettings,
  clock: Pick<Clock, 'monotonic'>,
  logger: Logger,
): GroupSource {
  const entries = new LRUCache<string, Entry>({ max: maxCachedUsers });
  const failures = new LRUCache<string, Failure>({ max: Math.min(MAX_FAILURES, maxCachedUsers) });
  const pending = new Map<string, Promise<SourceResponse>>();
  let quietUntil = Number.NEGATIVE_INFINITY;
  const lastKnown = (user: string, why: string): SourceResponse => {
    const entry = entries.peek(user);
    const isUsable = entry !== undefined && clock.monotonic() < entry.at + keepLastKnown;
    return isUsable ? { groups: entry.response.groups, note: `last known: ${why}` } : { groups: [], note: why };
  };
  const noteFailure = (user: string, error: unknown): SourceResponse => {
    const now = clock.monotonic();
    const why = error instanceof Error ? error.message : String(error);
    const failed = { until: now + RETRY_MS, why };
    const entry = entries.peek(user);
    if (entry === undefined) failures.set(user, failed);
    else entries.set(user, { ...entry, failed });
    if (now >= quietUntil) {
      quietUntil = now + QUIET_MS;
      const cause = causeOf(error);
      const reason = cause === null ? { reason: why } : { reason: why, cause };
      logger.warn({ source: 'ldap', ...reason }, 'failed to look up user groups; last known groups apply');
    }
    return lastKnown(user, why);
  };
  const ask = (user: string): Promise<SourceResponse> => {
    const lookup = lookUp(user)
      .then(
        (raw): SourceResponse => {
          const response = { ...raw, groups: groupNames(raw.groups) };
          entries.set(user, { response, at: clock.monotonic(), failed: null });
          failures.delete(user);
          return response;
        },
        (error: unknown) => noteFailure(user, error),
      )
      .finally(() => pending.delete(user));
    pending.set(user, lookup);
    return lookup;
  };
  const inTime = async (user: string, lookup: Promise<SourceResponse>): Promise<SourceResponse> =>
    (await within(lookup, timeout, null)) ?? lastKnown(user, `no answer within ${timeout} ms`);
  const currentOf = (entry: Entry | undefined): SourceResponse | null =>
    entry !== undefined && clock.monotonic() < entry.at + cacheDuration ? entry.response : null;
  return {
    name: 'ldap',
    groupsOf(asker) {
      const user = asker.user ?? '';
      const entry = entries.get(user);
      const current = unbelieved(asker) ?? currentOf(entry);
      if (current !== null) return current;
      const failed = entry === undefined ? failures.get(user) : entry.failed;
      if (failed != null && clock.monotonic() < failed.until) return lastKnown(user, failed.why);
      const running = pending.get(user);
      if (running === undefined && pending.size >= MAX_LOOKUPS) {
        return lastKnown(user, `${MAX_LOOKUPS} users are looked up already`);
      }
      return inTime(user, running ?? ask(user));
    },
    describedGroupsOf(asker) {
      const user = asker.user ?? '';
      const why = 'the source is not asked for explanations';
      return unbelieved(asker) ?? currentOf(entries.peek(user)) ?? lastKnown(user, why);
    },
  };
}

/** Cause of an error for the log: traces only have the sentence for users. */
function causeOf(error: unknown): string | null {
  const cause = error instanceof Error ? error.cause : undefined;
  if (!(cause instanceof Error)) return null;
  const { code } = cause as NodeJS.ErrnoException;
  return (cause.message || String(code ?? cause.name)).slice(0, MAX_CAUSE_LENGTH);
}

/**
 * Finds the groups of users by the configured sources, in order (docs/identity.md). An unverified name is not looked
 * up, unless the configuration trusts its source.
 */
export class UserGroups {
  readonly #mapping: Pick<MappedUsers, 'ofLogin'> | null;
  readonly #sources: readonly GroupSource[];
  readonly #combine: Settings['combine'];
  readonly #claimed: ReadonlySet<UserSource>;

  /**
   * @param sources in order
   * @param mapping of the names of API callers; null: unchanged
   */
  constructor(
    sources: readonly GroupSource[],
    settings: Pick<Settings, 'combine' | 'claimedUsers'>,
    mapping: Pick<MappedUsers, 'ofLogin'> | null = null,
  ) {
    this.#mapping = mapping;
    this.#sources = sources;
    this.#combine = settings.combine;
    this.#claimed = new Set(settings.claimedUsers);
  }

  /**
   * Returns the user of a request, with groups; synchronously if no source makes a request. Neither throws nor rejects.
   */
  of(user: RequestUser, request: Pick<Asker, 'headers' | 'address'>): RequestUser | Promise<RequestUser> {
    const evidence = EvidentUser.evidenceOf(user);
    const asker = { user: user.user, doubt: this.#doubtOf(user, evidence), evidence, ...request };
    const responses = this.#sources.map((source) => source.groupsOf(asker));
    if (!responses.some((response) => response instanceof Promise)) {
      return withGroups(user, this.#joined(responses as readonly SourceResponse[]));
    }
    return Promise.all(responses).then((all) => withGroups(user, this.#joined(all)));
  }

  /** The groups of an API caller. Never rejects. */
  async ofCaller(name: string, evidence: UserEvidence): Promise<readonly string[]> {
    const user = this.#mapping === null ? name : this.#mapping.ofLogin(name);
    if (user === null) return [];
    const { membership } = await this.of(new EvidentUser(user, evidence), { headers: [], address: undefined });
    return membership?.groups ?? [];
  }

  /** The user of a described request, with groups. No network access; the description is trusted. */
  described(user: RequestUser, headers: RawHeaders): RequestUser {
    const evidence = EvidentUser.evidenceOf(user);
    const asker: Asker = { user: user.user, doubt: null, evidence, headers, address: undefined };
    const responses = this.#sources.map(
      (source) => (source.describedGroupsOf ?? source.groupsOf)(asker) as SourceResponse,
    );
    return withGroups(user, this.#joined(responses));
  }

  #doubtOf({ user }: RequestUser, evidence: UserEvidence): string | null {
    if (user === null || evidence.isVerified || this.#claimed.has(evidence.source as UserSource)) return null;
    return `the user is only a claim of the client (${evidence.source}); userGroups.claimedUsers does not name it`;
  }

  #joined(responses: readonly SourceResponse[]): Membership {
    const sources = responses.map(({ groups, note }, index): SourceGroups => {
      const { name } = this.#sources[index] as GroupSource;
      return note === undefined ? { source: name, groups } : { source: name, groups, note };
    });
    if (this.#combine === 'all') return membershipOf(sources);
    const deciding = sources.findIndex(({ groups }) => groups.length > 0);
    return membershipOf(deciding < 0 ? sources : sources.slice(0, deciding + 1));
  }
}

function withGroups({ user, userInfo, mapping }: RequestUser, membership: Membership): RequestUser {
  return { user, userInfo, membership, ...(mapping === undefined ? {} : { mapping }) };
}

/** Maximum size of the file, bytes. */
const MAX_FILE_SIZE = 16 * 1_048_576;
/** Timeout of reading it, milliseconds: a network file system may hang. */
const READ_TIMEOUT_MS = 10_000;

type GroupsByUser = ReadonlyMap<string, readonly string[]>;

/**
 * Parses a file in the form of Trino's file group provider: `group:user,user` lines; blank lines and lines that begin
 * with `#` are ignored; a group may have several lines.
 * @throws Error naming the line
 */
export function parseGroupFile(text: string): GroupsByUser {
  const groups = new Map<string, string[]>();
  text.split(/\r\n|\n|\r/).forEach((content, index) => {
    const line = content.trim();
    if (line === '' || line.startsWith('#')) return;
    const colon = line.indexOf(':');
    const group = groupName(line.slice(0, Math.max(colon, 0)));
    if (group === null) throw new Error(`line ${index + 1} must be group:user1,user2`);
    for (const part of line.slice(colon + 1).split(',')) {
      const user = part.trim();
      if (user === '') continue;
      const present = groups.get(user);
      if (present === undefined) groups.set(user, [group]);
      else if (present.length < MAX_GROUPS && !present.includes(group)) present.push(group);
    }
  });
  return groups;
}

/**
 * Reads a group file.
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
 */
export async function readGroupFile(path: string): Promise<GroupsByUser> {
  return parsed(path, await inTime(textOf(path), READ_TIMEOUT_MS, tooSlow(path)));
}

/**
 * Opens the group file: a change is applied; an unusable file is reported once, and the last good groups count for
 * their time, then none.
 * @param keepLastKnown milliseconds for which the last good groups count while the file is unusable
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix, if the file cannot be used at the start
 */
export async function openGroupFile(
  { path, refreshPeriod }: NonNullable<Settings['file']>,
  keepLastKnown: number,
  clock: Pick<Clock, 'monotonic'>,
  logger: Logger,
): Promise<GroupSource & { groupsOf(asker: Parameters<GroupSource['groupsOf']>[0]): SourceResponse; stop(): void }> {
  let problem: string | null = null;
  let problemSince = 0;
  const report = (reason: string | null, groups: GroupsByUser): void => {
    if (problem === null) problemSince = clock.monotonic();
    problem = reason;
    if (reason === null) logger.info({ file: path, users: groups.size }, 'group file reloaded');
    else {
      const message = 'group file refused; the last good groups count for userGroups.keepLastKnown';
      logger.error({ file: path, reason }, message);
    }
  };
  // A reading that takes too long continues, in a thread of which there are few: the next look waits for the same one.
  let reading: Promise<string> | null = null;
  const read = (): Promise<string> => {
    reading ??= textOf(path).finally(() => {
      reading = null;
    });
    return inTime(reading, READ_TIMEOUT_MS, tooSlow(path));
  };
  const file = await followFiles(read, (text) => parsed(path, text), report, refreshPeriod);
  return {
    name: 'file',
    groupsOf(asker) {
      const response = unbelieved(asker);
      if (response !== null) return response;
      if (problem !== null && clock.monotonic() >= problemSince + keepLastKnown) return { groups: [], note: problem };
      const groups = file.current.get(asker.user ?? '') ?? [];
      return problem === null ? { groups } : { groups, note: `last known: ${problem}` };
    },
    stop: () => file.stop(),
  };
}

function tooSlow(path: string): () => GatewayError {
  return () => unusable(path, `was not read within ${READ_TIMEOUT_MS / 1_000} seconds`);
}

/** @throws GatewayError EG_IMPOSSIBLE naming the key and the fix */
async function textOf(path: string): Promise<string> {
  try {
    const { size } = await stat(path);
    if (size <= MAX_FILE_SIZE) return await readFile(path, 'utf8');
  } catch (error) {
    throw unusable(path, `cannot be read (${(error as NodeJS.ErrnoException).code})`);
  }
  throw unusable(path, `is longer than ${MAX_FILE_SIZE / 1_048_576} MB`);
}

function parsed(path: string, text: string): GroupsByUser {
  try {
    return parseGroupFile(text);
  } catch (error) {
    throw unusable(path, error instanceof Error ? error.message : String(error));
  }
}

function unusable(path: string, why: string): GatewayError {
  const field = 'userGroups.file.path';
  return new GatewayError('EG_IMPOSSIBLE', `${field}: ${path}: ${why}.`, { field });
}
