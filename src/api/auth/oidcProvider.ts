import { createRemoteJWKSet, type JWTVerifyGetKey } from 'jose';
import {
  allowInsecureRequests,
  type ClientAuth,
  ClientSecretBasic,
  Configuration,
  discovery,
  enableNonRepudiationChecks,
} from 'openid-client';
import { GatewayError } from '../../model/errors.ts';
import type { Secret } from '../../model/secret.ts';
import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';

/** Provider and client settings (`authentication.oauth`, `authentication.providers`). */
export interface OidcProviderOptions {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: Secret;
  /** Null: all three are discovered from the issuer. */
  readonly endpoints: { readonly authorization: string; readonly token: string; readonly jwks: string } | null;
}

const TIMEOUT_S = 10;

/** Keys are fetched again after this time, and for an unknown key id at most once in the other (milliseconds). */
const KEYS_MAX_AGE_MS = 600_000;
const KEYS_COOLDOWN_MS = 30_000;

/** After a failed discovery the provider is left alone for this time, in milliseconds. */
const DISCOVERY_PAUSE_MS = 2_000;

/** The OpenID provider: found when it is first needed, so that the gateway starts without it. */
export class OidcProvider {
  readonly options: OidcProviderOptions;
  #configuration: Promise<Configuration> | null = null;
  #keys: JWTVerifyGetKey | null = null;

  constructor(options: OidcProviderOptions) {
    this.options = options;
  }

  /** @throws GatewayError EG_IDENTITY_UNAVAILABLE when it cannot be found */
  async configuration(): Promise<Configuration> {
    await this.options.clientSecret.read();
    this.#configuration ??= this.#find().catch((cause: unknown) => {
      setTimeout(() => {
        this.#configuration = null;
      }, DISCOVERY_PAUSE_MS).unref();
      throw providerAway(cause);
    });
    return await this.#configuration;
  }

  /** The provider's keys, cached. @throws GatewayError EG_IDENTITY_UNAVAILABLE when it cannot be found */
  async keys(): Promise<JWTVerifyGetKey> {
    if (this.#keys !== null) return this.#keys;
    const url = (await this.configuration()).serverMetadata().jwks_uri;
    if (url === undefined) throw providerAway(new Error('the provider names no jwks_uri'));
    this.#keys = createRemoteJWKSet(new URL(url), {
      timeoutDuration: TIMEOUT_S * 1000,
      cacheMaxAge: KEYS_MAX_AGE_MS,
      cooldownDuration: KEYS_COOLDOWN_MS,
    });
    return this.#keys;
  }

  async #find(): Promise<Configuration> {
    const { issuer, clientId, clientSecret, endpoints } = this.options;
    const authentication: ClientAuth = (...request) => ClientSecretBasic(clientSecret.text)(...request);
    const plain = [issuer, ...Object.values(endpoints ?? {})].some((url) => url.startsWith('http:'));
    // Clear text only where the configuration itself states http://.
    const execute = [enableNonRepudiationChecks, ...(plain ? [allowInsecureRequests] : [])];
    if (endpoints === null) {
      return discovery(new URL(issuer), clientId, undefined, authentication, { execute, timeout: TIMEOUT_S });
    }
    const server = {
      issuer,
      authorization_endpoint: endpoints.authorization,
      token_endpoint: endpoints.token,
      jwks_uri: endpoints.jwks,
      id_token_signing_alg_values_supported: [...signatureAlgorithms],
    };
    const configuration = new Configuration(server, clientId, undefined, authentication);
    configuration.timeout = TIMEOUT_S;
    for (const apply of execute) apply(configuration);
    return configuration;
  }
}

export function providerAway(cause: unknown): GatewayError {
  return new GatewayError('EG_IDENTITY_UNAVAILABLE', 'The OpenID provider does not answer properly; try again soon.', {
    cause,
  });
}
