import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Followed } from '../../config/followedFiles.ts';
import { growingTo } from '../../model/growingCache.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import { followMapping, type MappedUser, type MappingRule, mappedUser, openMappingRules } from './mappingRules.ts';
import { EvidentUser, type UserEvidence } from './userEvidence.ts';

/** Settings `userMapping` (docs/identity.md#user-mapping). */
export interface NameMappingSettings {
  readonly pattern: string | null;
  readonly file: string | null;
  /** Milliseconds between two reads of the file. */
  readonly refreshPeriod: number;
  /** Sources of mapped names; others stay unchanged. */
  readonly sources: readonly MappedSource[];
  /** True if clusters receive the mapped names of verified users. */
  readonly rewriteUserHeader: boolean;
}

/** Sources of names that can be mapped; `login`: of API callers. */
export const mappedSources = ['header', 'basic', 'bearer', 'cookie', 'certificate', 'login'] as const;

export type MappedSource = (typeof mappedSources)[number];

const MAX_NAMES = 10_000;
const MAX_SHOWN_LENGTH = 200;

export class MappedUsers {
  readonly #rules: Followed<readonly MappingRule[]>;
  readonly #sources: ReadonlySet<string>;
  /** True if clusters receive the mapped names of verified users. */
  readonly rewritesHeader: boolean;
  readonly #users = new LRUCache<string, { readonly user: string }>(growingTo(MAX_NAMES));
  #remembered: readonly MappingRule[];

  constructor(
    rules: Followed<readonly MappingRule[]>,
    { sources, rewriteUserHeader }: Pick<NameMappingSettings, 'sources' | 'rewriteUserHeader'>,
  ) {
    this.#rules = rules;
    this.#remembered = rules.current;
    this.#sources = new Set(sources);
    this.rewritesHeader = rewriteUserHeader;
  }

  /**
   * Creates the configured mapping, and follows its file.
   * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
   */
  static async open(settings: NameMappingSettings, logger: Logger): Promise<MappedUsers> {
    const { file, refreshPeriod } = settings;
    return new MappedUsers(await followMapping(file, () => openNameRules(settings), refreshPeriod, logger), settings);
  }

  stop(): void {
    this.#rules.stop();
  }

  /** The user of a request with the mapped name, or the rejection; unchanged if its source is not mapped. */
  of(user: RequestUser): RequestUser {
    const { user: from } = user;
    if (from === null) return user;
    const evidence = EvidentUser.evidenceOf(user);
    if (!this.#sources.has(sourceOf(evidence))) return user;
    return this.#asMapped(user, from, evidence);
  }

  /** The user of a name as clients send it, from any source. */
  ofName(name: string): RequestUser {
    const user = { user: name, userInfo: null };
    return this.#asMapped(user, name, EvidentUser.evidenceOf(user));
  }

  #asMapped(user: RequestUser, from: string, evidence: UserEvidence): RequestUser {
    const mapped = this.#mapped(from);
    if ('refusal' in mapped) return { user: null, userInfo: null, refusal: refusalText(from, mapped.refusal) };
    const mapping = { from, isForwarded: this.rewritesHeader && evidence.isVerified };
    return user instanceof EvidentUser
      ? new EvidentUser(mapped.user, evidence, mapping)
      : { ...user, user: mapped.user, mapping };
  }

  ofCertificate(user: string): string {
    if (!this.rewritesHeader || !this.#sources.has('certificate')) return user;
    const mapped = this.#mapped(user);
    return 'refusal' in mapped ? user : mapped.user;
  }

  /** The name of an API caller's queries; null if no rule accepts the name. */
  ofLogin(name: string): string | null {
    if (!this.#sources.has('login')) return name;
    const mapped = this.#mapped(name);
    return 'refusal' in mapped ? null : mapped.user;
  }

  #mapped(name: string): MappedUser {
    const { current } = this.#rules;
    if (this.#remembered !== current) {
      this.#users.clear();
      this.#remembered = current;
    }
    const remembered = this.#users.get(name);
    if (remembered !== undefined) return remembered;
    const mapped = mappedUser(current, name);
    // A rejection may be due to a timeout: not cached.
    if ('user' in mapped) this.#users.set(name, mapped);
    return mapped;
  }
}

/**
 * The rules of `userMapping`; reads their file.
 * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
 */
export async function openNameRules({
  pattern,
  file,
}: Pick<NameMappingSettings, 'pattern' | 'file'>): Promise<readonly MappingRule[]> {
  return await openMappingRules(
    { key: 'userMapping.pattern', value: pattern },
    { key: 'userMapping.file', value: file },
  );
}

/** Responses about bearer tokens count as bearer tokens. */
function sourceOf({ source }: UserEvidence): string {
  return source === 'exchange' || source === 'tokenReview' ? 'bearer' : source;
}

function refusalText(name: string, why: string): string {
  const shown = name.length > MAX_SHOWN_LENGTH ? `${name.slice(0, MAX_SHOWN_LENGTH)}…` : name;
  return `The user ${JSON.stringify(shown)} is refused by the user mapping of the gateway: ${why}.`;
}
