import type { Logger } from 'pino';
import { Agent, type Dispatcher, request } from 'undici';
import type { Clock } from '../../model/clock.ts';
import { noUser, type RequestUser } from '../../model/requestUser.ts';
import { withTimeLimit } from '../../model/timeLimit.ts';
import { userAgent } from '../../model/version.ts';
import { type Remembered, TokenMemory } from './tokenMemory.ts';
import type { UserMetrics } from './userMetrics.ts';
import { userName } from './userName.ts';
import type { UserNamespace } from './userNamespace.ts';

/** Cache time of a response (docs/request-user.md#token-exchange). */
export const EXCHANGE_MEMORY_MS = 10 * 60_000;
export const FAILURE_MEMORY_MS = 30_000;
/** Default timeout of an exchange. */
export const EXCHANGE_TIMEOUT_MS = 5_000;
const MAX_ANSWER_LENGTH = 256 * 1024;
const LIMITS = { entries: 10_000, inFlight: 64 } as const;

const FOREIGN =
  'the token exchange names a user whose name begins with the userPrefix of one of requestAnalyzerConfig.tokenIssuers: the user is not recognised; give that issuer another userPrefix if the names are those of the exchange';

export interface TokenExchangeOptions {
  /** `requestAnalyzerConfig.oauthTokenInfoUrl`: an OpenID Connect UserInfo endpoint. */
  readonly url: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: UserMetrics;
  readonly users: UserNamespace;
  /** Timeout of one exchange, milliseconds. */
  readonly timeoutMs: number;
}

/**
 * Exchanges bearer tokens for user information (OpenID Connect Core 1.0 §5.3): the user is the claim `sub`. Failures
 * mean no user, and so does the name of a user of an issuer of tokens. Responses are cached for 10 minutes, failures
 * for 30 seconds; single-flight per token.
 */
export class TokenExchange {
  readonly #options: TokenExchangeOptions;
  readonly #agent = new Agent({ connect: { timeout: EXCHANGE_TIMEOUT_MS }, connections: LIMITS.inFlight });
  readonly #memory: TokenMemory<RequestUser>;

  constructor(options: TokenExchangeOptions) {
    this.#options = options;
    this.#memory = new TokenMemory<RequestUser>(LIMITS, options.clock);
  }

  /** The user of a token; synchronously if cached. Never rejects. */
  user(token: string): RequestUser | Promise<RequestUser> {
    return this.#memory.get(token, () => this.#ask(token), noUser);
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  async #ask(token: string): Promise<Remembered<RequestUser>> {
    const { url, logger, metrics, users, timeoutMs } = this.#options;
    try {
      const late = () => Object.assign(new Error('no answer in time'), { code: 'ETIMEDOUT' });
      const { statusCode, text } = await withTimeLimit(timeoutMs, late, async (signal) => {
        const headers = { authorization: `Bearer ${token}`, accept: 'application/json', 'user-agent': userAgent };
        const response = await request(url, { dispatcher: this.#agent, headers, signal });
        return { statusCode: response.statusCode, text: await limitedText(response, MAX_ANSWER_LENGTH) };
      });
      const user = statusCode === 200 ? userOf(text) : null;
      if (user?.user != null) {
        if (users.nameOf(user.user) === null) {
          metrics.token('exchange', 'refused');
          logger.warn({ url }, FOREIGN);
          return { answer: noUser, forMs: FAILURE_MEMORY_MS };
        }
        metrics.token('exchange', 'accepted');
        return { answer: user, forMs: EXCHANGE_MEMORY_MS };
      }
      const refused = statusCode === 401 || statusCode === 403;
      metrics.token('exchange', refused ? 'refused' : 'failed');
      if (!refused) logger.warn({ url, status: statusCode }, 'the token exchange gave no user information');
    } catch (error) {
      metrics.token('exchange', 'failed');
      logger.warn({ url, reason: reasonOf(error) }, 'the token exchange failed');
    }
    return { answer: noUser, forMs: FAILURE_MEMORY_MS };
  }
}

/** Failure text that cannot contain the token: the error's code or name. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown';
  return (error as NodeJS.ErrnoException).code ?? error.name;
}

/** The body as text; throws if it is longer than `limit` bytes. */
async function limitedText(response: Dispatcher.ResponseData, limit: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response.body as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > limit) {
      response.body.destroy();
      throw Object.assign(new Error('the answer is too long'), { code: 'EG_ANSWER_TOO_LONG' });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function userOf(text: string): RequestUser | null {
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
