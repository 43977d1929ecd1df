import { Counter, type Registry } from 'prom-client';

/** How asking about a token ended, a label of the metrics. */
export type TokenResult = 'accepted' | 'refused' | 'failed';

/** Metrics of user extraction. */
export class UserMetrics {
  readonly #tokens: Counter<'kind' | 'result'>;

  constructor(registry: Registry) {
    this.#tokens = new Counter({
      name: 'engine_gateway_user_tokens_total',
      help: 'Tokens asked about, by kind (exchange, verification) and result (accepted, refused, failed); answers from memory are not counted.',
      labelNames: ['kind', 'result'],
      registers: [registry],
    });
  }

  token(kind: 'exchange' | 'verification', result: TokenResult): void {
    this.#tokens.inc({ kind, result });
  }
}
