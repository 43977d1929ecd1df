import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { growingTo } from '../../model/growingCache.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import { type Followed, followFile } from './followedFile.ts';
import {
  type MappedUser,
  type MappingRule,
  type MappingRuleSource,
  mappedUser,
  openMappingRules,
} from './mappingRules.ts';
import { EvidentUser, type UserEvidence } from './userEvidence.ts';

/** `userMapping` (docs/identity.md#user-mapping). */
export interface NameMappingSettings {
  readonly pattern: string | null;
  readonly file: string | null;
  /** Milliseconds between two looks at the file. */
  readonly refreshPeriod: number;
  /** Where the names come from that are mapped; others stay as they are. */
  readonly sources: readonly MappedSource[];
  /** Whether clusters get the mapped names of verified users. */
  readonly rewriteUserHeader: boolean;
}

/** Sources of names that can be mapped; `login`: of callers of the API. */
export const mappedSources = ['header', 'basic', 'bearer', 'cookie', 'certificate', 'login'] as const;

/** A source of names that can be mapped. */
export type MappedSource = (typeof mappedSources)[number];

/** Names whose users are remembered. */
const MOST_NAMES = 10_000;
/** Characters of a name that a message repeats. */
const LONGEST_SHOWN = 200;

/** Turns the names of users into those by which the gateway knows them, by the rules in force. */
export class MappedUsers {
  readonly #rules: Followed<readonly MappingRule[]>;
  readonly #sources: ReadonlySet<string>;
  /** Whether clusters get the names of verified users. */
  readonly rewritesHeader: boolean;
  readonly #users = new LRUCache<string, { readonly user: string }>(growingTo(MOST_NAMES));
  /** The rules that made what is remembered. */
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
   * Makes the mapping of the configuration, and follows its file.
   * @throws GatewayError EG_IMPOSSIBLE naming the key and the fix
   */
  static async open(settings: NameMappingSettings, logger: Logger): Promise<MappedUsers> {
    const open = () => openNameRules(settings);
    const { file: path, refreshPeriod: refreshTime } = settings;
    const rules =
      path === null
        ? { current: await open(), stop: () => undefined }
        : await followFile({ path, subject: 'file of user mappings', open, refreshTime, logger });
    return new MappedUsers(rules, settings);
  }

  stop(): void {
    this.#rules.stop();
  }

  /** The user of a request with the mapped name, or with why it is refused; as it is where its source is not mapped. */
  of(user: RequestUser): RequestUser {
    const { user: from } = user;
    if (from === null) return user;
    const evidence = EvidentUser.evidenceOf(user);
    if (!this.#sources.has(sourceOf(evidence))) return user;
    return this.#asMapped(user, from, evidence);
  }

  /** The user of a name as clients send it, whatever it would come from. */
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

  /** The name that clusters get of the user of a client certificate. */
  ofCertificate(user: string): string {
    if (!this.rewritesHeader || !this.#sources.has('certificate')) return user;
    const mapped = this.#mapped(user);
    return 'refusal' in mapped ? user : mapped.user;
  }

  /** The name by which the gateway knows the queries of a caller of the API; null where no rule lets the name pass. */
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
    // What is refused may have run out of its time: it is asked again.
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
  const source: MappingRuleSource = {
    pattern: { key: 'userMapping.pattern', value: pattern },
    file: { key: 'userMapping.file', path: file },
  };
  return await openMappingRules(source);
}

/** Answers about bearer tokens are about bearer tokens. */
function sourceOf({ source }: UserEvidence): string {
  return source === 'exchange' || source === 'tokenReview' ? 'bearer' : source;
}

function refusalText(name: string, why: string): string {
  const shown = name.length > LONGEST_SHOWN ? `${name.slice(0, LONGEST_SHOWN)}…` : name;
  return `The user ${JSON.stringify(shown)} is refused by the user mapping of the gateway: ${why}.`;
}
