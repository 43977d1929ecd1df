import type { Logger } from 'pino';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../../model/clock.ts';
import type { AttemptResult } from './attemptLimit.ts';
import { type LoginSource, nearNetwork } from './loginSource.ts';

/** Time that is looked at as a whole, and between two warnings, in milliseconds. */
const PERIOD_MS = 3_600_000;
/** Names from one address alone that make it look like a proxy. */
const SUSPICIOUS_NAMES = 5;

/**
 * Watches where logins come from. Where all of them come from one address, limits of failed logins count all users as
 * one: usually a proxy stands before the gateway that `server.trustedProxies` does not name.
 */
export class LoginOrigins {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #logins: Counter<'result'>;
  #periodEnd = Number.NEGATIVE_INFINITY;
  #network: string | null = null;
  #isOne = true;
  #warned = false;
  readonly #names = new Set<string>();

  constructor({ clock, logger, metrics }: { clock: Clock; logger: Logger; metrics: Registry }) {
    this.#clock = clock;
    this.#logger = logger;
    this.#logins = new Counter({
      name: 'engine_gateway_logins_total',
      help: 'Logins with a password or a new token, by result: succeeded, failed, or limited as too many have failed.',
      labelNames: ['result'],
      registers: [metrics],
    });
    const isOne = () => (this.#looksLikeProxy() ? 1 : 0);
    new Gauge({
      name: 'engine_gateway_logins_from_one_address',
      help: '1 while all logins of the hour, of five users or more, come from one address, perhaps a proxy that server.trustedProxies lacks.',
      registers: [metrics],
      collect() {
        this.set(isOne());
      },
    });
  }

  note(name: string, source: LoginSource, result: AttemptResult): void {
    this.#logins.inc({ result });
    this.#beginPeriod();
    const network = nearNetwork(source);
    this.#network ??= network;
    this.#isOne &&= this.#network === network;
    if (this.#names.size < SUSPICIOUS_NAMES) this.#names.add(name);
    if (this.#warned || !this.#looksLikeProxy()) return;
    this.#warned = true;
    this.#logger.warn(
      { address: source.address },
      `all logins come from ${source.address}: where that is a proxy, name it in server.trustedProxies, as limits of failed logins count by address`,
    );
  }

  #looksLikeProxy(): boolean {
    return this.#isOne && this.#names.size >= SUSPICIOUS_NAMES && this.#clock.monotonic() < this.#periodEnd;
  }

  #beginPeriod(): void {
    const now = this.#clock.monotonic();
    if (now < this.#periodEnd) return;
    this.#periodEnd = now + PERIOD_MS;
    this.#network = null;
    this.#isOne = true;
    this.#warned = false;
    this.#names.clear();
  }
}
