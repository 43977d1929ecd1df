import type { Logger } from 'pino';
import { Agent, request } from 'undici';
import type { Clock } from '../../model/clock.ts';
import { noUser, type RequestUser } from '../../model/requestUser.ts';
import { withTimeLimit } from '../../model/timeLimit.ts';
import { userAgent } from '../../model/version.ts';
import { FAILURE_MEMORY_MS, limitedText, TOKEN_MEMORY_MS, type TokenCounter } from './tokenIssuer.ts';
import { type TimedResponse, TokenMemory } from './tokenMemory.ts';
import { userName } from './userName.ts';
import type { UserNamespace } from './userNamespace.ts';

/** Default timeout of an exchange. */
export const EXCHANGE_TIMEOUT_MS = 5_000;
const MAX_IN_FLIGHT = 64;

const FOREIGN =
  'the token exchange names a user whose name begins with the userPrefix of one of requestAnalyzerConfig.tokenIssuers: the user is not recognised; give that issuer another userPrefix if the names are those of the exchange';

/**
 * Exchanges bearer tokens for user information (OpenID Connect Core 1.0 §5.3): the user is the claim `sub`. Failures
 * mean no user, and so does the name of a user of an issuer of tokens. Responses are cached for 10 minutes, failures
 * for 30 seconds; single-flight per token.
 */
export class TokenExchange {
  readonly #url: string;
  readonly #users: UserNamespace;
  readonly #timeoutMs: number;
  readonly #logger: Logger;
  readonly #count: TokenCounter;
  readonly #agent = new Agent({ connect: { timeout: EXCHANGE_TIMEOUT_MS }, connections: MAX_IN_FLIGHT });
  readonly #memory: TokenMemory<RequestUser>;

  /**
   * @param url `requestAnalyzerConfig.oauthTokenInfoUrl`: an OpenID Connect UserInfo endpoint
   * @param timeoutMs of one exchange, milliseconds
   */
  constructor(url: string, users: UserNamespace, timeoutMs: number, clock: Clock, logger: Logger, count: TokenCounter) {
    this.#url = url;
    this.#users = users;
    this.#timeoutMs = timeoutMs;
    this.#logger = logger;
    this.#count = count;
    this.#memory = new TokenMemory(MAX_IN_FLIGHT, clock);
  }

  /** The user of a token; synchronously if cached. Never rejects. */
  user(token: string): RequestUser | Promise<RequestUser> {
    return this.#memory.get(token, () => this.#ask(token), noUser);
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #ask(token: string): Promise<TimedResponse<RequestUser>> {
    const url = this.#url;
    try {
      const late = () => Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' });
      const { status, text } = await withTimeLimit(this.#timeoutMs, late, async (signal) => {
        const headers = { authorization: `Bearer ${token}`, accept: 'application/json', 'user-agent': userAgent };
        const { statusCode, body } = await request(url, { dispatcher: this.#agent, headers, signal });
        return { status: statusCode, text: await limitedText(body) };
      });
      const user = status === 200 ? userOf(text) : null;
      if (user !== null && this.#users.nameOf(user.user) !== null) {
        this.#count('exchange', 'accepted');
        return { answer: user, forMs: TOKEN_MEMORY_MS };
      }
      const isRejected = user !== null || status === 401 || status === 403;
      this.#count('exchange', isRejected ? 'refused' : 'failed');
      if (user !== null) this.#logger.warn({ url }, FOREIGN);
      else if (!isRejected) this.#logger.warn({ url, status }, 'token exchange returned no user information');
    } catch (error) {
      this.#count('exchange', 'failed');
      this.#logger.warn({ url, reason: reasonOf(error) }, 'token exchange failed');
    }
    return { answer: noUser, forMs: FAILURE_MEMORY_MS };
  }
}

/** Failure text that cannot contain the token: the error's code or name. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  return (error as NodeJS.ErrnoException).code ?? error.name;
}

function userOf(text: string): (RequestUser & { readonly user: string }) | null {
  let info: unknown;
  try {
    info = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof info !== 'object' || info === null || Array.isArray(info)) return null;
  const user = userName((info as Record<string, unknown>).sub);
  return user === null ? null : { user, userInfo: info as Readonly<Record<string, unknown>> };
}
