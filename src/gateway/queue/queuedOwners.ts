import { timingSafeEqual } from 'node:crypto';
import { headerValues, type RawHeaders } from '../../model/http.ts';
import type { ProductNames } from '../../model/names.ts';
import type { QueuedQueryRepository } from '../../store/queuedQueryRepository.ts';
import type { QueuedQueryRow } from '../../store/store.ts';
import type { QueueKey } from './queueKey.ts';
import { decodeSubmission } from './storedSubmission.ts';

export interface QueuedOwnersDependencies {
  readonly names: ProductNames;
  readonly repository: Pick<QueuedQueryRepository, 'request'>;
  readonly key: QueueKey;
}

/**
 * Identifies clients of queued queries. The gateway checks no passwords: a caller with the query's credentials is its
 * user.
 */
export class QueuedOwners {
  readonly #dependencies: QueuedOwnersDependencies;
  readonly #userHeader: string;

  constructor(dependencies: QueuedOwnersDependencies) {
    this.#dependencies = dependencies;
    this.#userHeader = dependencies.names.headerKey('User');
  }

  /**
   * True if a call has the credentials of a queued query.
   * @throws GatewayError while the database is unavailable
   */
  async haveSameCredentials(headers: RawHeaders, row: QueuedQueryRow): Promise<boolean> {
    const stored = await this.#headersOf(row);
    return stored !== null && areSame(['authorization', 'cookie'], headers, stored);
  }

  /**
   * Like `haveSameCredentials`, if the user of the call is in its headers: the user header is optional with a password.
   * @throws GatewayError while the database is unavailable
   */
  async areSameClient(headers: RawHeaders, row: QueuedQueryRow): Promise<boolean> {
    const stored = await this.#headersOf(row);
    if (stored === null || !areSame(['authorization', 'cookie'], headers, stored)) return false;
    if (areSame([this.#userHeader], headers, stored)) return true;
    return headerValues(headers, this.#userHeader).length === 0 && headerValues(headers, 'authorization').length > 0;
  }

  async #headersOf({ id, replica }: QueuedQueryRow): Promise<RawHeaders | null> {
    const { repository, key } = this.#dependencies;
    const sealed = await repository.request(id, replica);
    const bytes = sealed === null ? null : key.open('request', id, sealed);
    return bytes === null ? null : decodeSubmission(bytes).headers;
  }
}

function areSame(names: readonly string[], headers: RawHeaders, stored: RawHeaders): boolean {
  return names.every((name) => {
    const [a, b] = [headers, stored].map((lines) => Buffer.from(headerValues(lines, name).join('\n')));
    return a !== undefined && b !== undefined && a.length === b.length && timingSafeEqual(a, b);
  });
}
