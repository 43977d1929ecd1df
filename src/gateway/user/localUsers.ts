import type { Logger } from 'pino';
import { Registry } from 'prom-client';
import type { Clock } from '../../model/clock.ts';
import type { ProductNames } from '../../model/names.ts';
import type { RawHeaders } from '../../model/rawHeaders.ts';
import { noUser, type RequestUser } from '../../model/requestUser.ts';
import { EXCHANGE_TIMEOUT_MS } from './tokenExchange.ts';
import { UserExtractor, type UserSettings } from './userExtractor.ts';

/**
 * Users of described requests: the same steps as for real ones, without token exchange and key fetching, so that
 * explanations need no network access. Claims of tokens are trusted.
 */
export function localUsers(
  settings: UserSettings,
  dependencies: { readonly names: ProductNames; readonly clock: Clock; readonly logger: Logger },
): (headers: RawHeaders) => RequestUser {
  // Separate metrics: explanations are not requests.
  const users = new UserExtractor(
    { ...settings, oauthTokenInfoUrl: null, believesClaims: true },
    { ...dependencies, registry: new Registry(), exchangeTimeoutMs: EXCHANGE_TIMEOUT_MS },
  );
  return (headers) => {
    const user = users.user(headers);
    return user instanceof Promise ? noUser : user;
  };
}
