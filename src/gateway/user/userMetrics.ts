import { Counter, type Registry } from 'prom-client';

export type TokenResult = 'accepted' | 'refused' | 'failed';

export class UserMetrics {
  readonly #tokens: Counter<'kind' | 'result' | 'issuer'>;

  constructor(registry: Registry) {
    this.#tokens = new Counter({
      name: 'engine_gateway_user_tokens_total',
      help: 'Tokens asked about, by kind (exchange, verification, review), result (accepted, refused, failed) and issuer, its name in requestAnalyzerConfig.tokenIssuers; answers from memory are not counted.',
      labelNames: ['kind', 'result', 'issuer'],
      registers: [registry],
    });
  }

  /** @param issuer name of a configured one; empty, which is as no label, for others */
  token(kind: 'exchange' | 'verification' | 'review', result: TokenResult, issuer = ''): void {
    this.#tokens.inc({ kind, result, issuer });
  }
}
