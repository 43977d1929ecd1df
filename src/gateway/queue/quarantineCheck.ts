import { Counter } from 'prom-client';
import { headerFields } from '../../model/http.ts';
import { inTime, within } from '../../model/timeLimit.ts';
import { type Refusal, toRefusal } from '../../routing/refusal.ts';
import type { Quarantine, QuarantinedStatement } from '../../store/quarantine.ts';
import type { DataPlaneParts } from '../dataPlane.ts';
import type { LostAttempt, Submission } from '../exchanges/queryRecorder.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import type { StoredSubmission } from './storedSubmission.ts';

/** Longest age of the list of a replica, and timeout for reading it: the older one counts then. */
const MAX_AGE_MS = 1_000;
const NOTE_TIMEOUT_MS = 5_000;
const MAX_NAMED = 5;

/** Rejects statements that lost several clusters of their routing group (docs/survival.md#quarantine). */
export class QuarantineCheck {
  readonly #parts: DataPlaneParts;
  readonly #store: Pick<Quarantine, 'note' | 'active'>;
  readonly #count: Counter;
  #entries: readonly (QuarantinedStatement & { readonly endsAt: number })[] = [];
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | null = null;

  constructor(parts: DataPlaneParts, store: Pick<Quarantine, 'note' | 'active'>) {
    this.#parts = parts;
    this.#store = store;
    this.#count = new Counter({
      name: 'engine_gateway_quarantines_total',
      help: 'Statements that this replica quarantined, as they lost several clusters.',
      registers: [parts.registry],
    });
  }

  /** Returns the rejection of a quarantined statement; null for all others. Reads the list once a second. Never rejects. */
  async rejectionOf(
    proxied: Pick<ProxiedRequest, 'fields' | 'request'>,
    { body, decision, survival }: Pick<Submission, 'body' | 'decision' | 'survival'>,
  ): Promise<Refusal | null> {
    const { clock, recorder, headers, names } = this.#parts;
    if (clock.monotonic() - this.#readAt >= MAX_AGE_MS) {
      this.#reading ??= this.#read();
      await within(this.#reading, MAX_AGE_MS, undefined);
    }
    const group = survival?.group ?? decision.group;
    const now = clock.monotonic();
    const own = this.#entries.filter((entry) => entry.group === group && entry.endsAt > now);
    if (own.length === 0) return null;
    const { exact, shape } = recorder.digestsOf(proxied, { body });
    const qualifier = this.#qualifierOf(proxied);
    const entry = own.find(({ exactDigest, digest, qualifier: ofEntry }) =>
      exactDigest === null ? digest === shape : exactDigest === exact && ofEntry === qualifier,
    );
    if (entry === undefined) return null;
    const { scheme, host, port } = headers.clientOf(proxied.request);
    const page = `${scheme}://${host}:${port}${names.gatewayPath}/workload`;
    const what = entry.exactDigest === null ? 'Statements of this shape are' : 'This statement is';
    const message = `${what} quarantined in routing group "${group}" until ${new Date(entry.until).toISOString()}: clusters ${entry.clusters.slice(0, MAX_NAMED).join(', ')} were lost while they ran it. An administrator can release digest ${entry.exactDigest ?? shape} at ${page}`;
    return toRefusal('quarantined', message);
  }

  /** Notes the loss of an attempt. @returns true if its statement is quarantined. Rejects without the database */
  async note(lost: LostAttempt, group: string, stored: StoredSubmission): Promise<boolean> {
    const { recorder, logger, onQuarantined } = this.#parts;
    const { queryId, cluster } = lost;
    const proxied = { fields: headerFields(stored.headers) };
    const body = { bytes: stored.body, complete: true, text: stored.body.toString() };
    const { exact: exactDigest, shape: digest } = recorder.digestsOf(proxied, { body });
    const { user } = stored.user;
    const query = { queryId, cluster, group, user, exactDigest, digest, qualifier: this.#qualifierOf(proxied) };
    const noted = await inTime(this.#store.note(query), NOTE_TIMEOUT_MS);
    if (noted !== 'new') return noted === 'yes';
    this.#count.inc();
    this.#readAt = Number.NEGATIVE_INFINITY;
    logger.warn({ group, digest, exactDigest, queryId, cluster, user }, 'statement quarantined');
    onQuarantined?.(group, `statement ${exactDigest} lost ${cluster} and another cluster; it is rejected for an hour`);
    return true;
  }

  async #read(): Promise<void> {
    const { clock, logger } = this.#parts;
    const now = clock.monotonic();
    try {
      this.#entries = (await this.#store.active()).map((entry) => ({
        ...entry,
        endsAt: now + entry.until - entry.now,
      }));
    } catch (error) {
      logger.debug({ err: error }, 'failed to read quarantined statements');
    } finally {
      this.#readAt = now;
      this.#reading = null;
    }
  }

  #qualifierOf({ fields }: Pick<ProxiedRequest, 'fields'>): string {
    const { names } = this.#parts;
    return [names.headerKey('Catalog'), names.headerKey('Schema')].map((key) => fields.get(key)?.[0] ?? '').join('.');
  }
}
