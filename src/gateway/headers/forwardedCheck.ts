import type { Clock } from '../../model/clock.ts';
import type { ClientView } from './requestHeaders.ts';

/** Support of forwarded headers by a cluster, observed in its responses (condition ForwardedHeaders). */
export interface ForwardedHeadersObservation {
  readonly cluster: string;
  readonly proxyTo: string;
  readonly honoured: boolean;
  /** Sentence for users: the observation, and the engine's setting to change. */
  readonly message: string;
}

/** Interval of checks of a cluster with correct responses. */
const RECHECK_AFTER_MS = 60_000;
/** Interval for a cluster that ignores forwarded headers, which may be fixed any moment. */
const RECHECK_BAD_AFTER_MS = 1_000;
/** Interval of repeated reports about a cluster: other replicas may have had correct responses in between. */
const REPEAT_BAD_AFTER_MS = 60_000;
const nextUri = /"nextUri"\s*:\s*"([^"\\]+)"/;

/** Times in monotonic milliseconds. */
interface Entry {
  readonly honoured: boolean;
  readonly message: string;
  readonly at: number;
  readonly reportedAt: number;
}

/**
 * Detects clusters that ignore or reject forwarded headers in responses to submissions; reports changes, and repeats
 * continuing problems.
 */
export class ForwardedCheck {
  readonly #clock: Clock;
  readonly #report: (observation: ForwardedHeadersObservation) => void;
  readonly #observations = new Map<string, Entry>();

  constructor(clock: Clock, report: (observation: ForwardedHeadersObservation) => void) {
    this.#clock = clock;
    this.#report = report;
  }

  /** True if the next response of the cluster should be checked. */
  due(proxyTo: string): boolean {
    const observation = this.#observations.get(proxyTo);
    if (observation === undefined) return true;
    return this.#clock.monotonic() - observation.at > (observation.honoured ? RECHECK_AFTER_MS : RECHECK_BAD_AFTER_MS);
  }

  /** Records a response 406 to a submission. */
  noteRejection(cluster: string, proxyTo: string): void {
    this.#note(cluster, proxyTo, false, `The cluster answers 406 to forwarded headers; ${fix}.`);
  }

  /**
   * Checks the response's nextUri.
   * @param text start of the response
   * @param view the gateway's address as the client named it
   */
  noteResponse(cluster: string, proxyTo: string, text: string, view: ClientView): void {
    const uri = nextUri.exec(text)?.[1];
    if (uri === undefined || !URL.canParse(uri)) return;
    const url = new URL(uri);
    const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
    const honoured =
      url.hostname.toLowerCase() === view.host.toLowerCase() &&
      port === view.port &&
      url.protocol === `${view.scheme}:`;
    this.#note(
      cluster,
      proxyTo,
      honoured,
      honoured
        ? 'Follow-up URLs of the cluster point to the gateway.'
        : `Follow-up URLs of the cluster point to ${url.origin} instead of the gateway; ${fix}.`,
    );
  }

  #note(cluster: string, proxyTo: string, honoured: boolean, message: string): void {
    const before = this.#observations.get(proxyTo);
    const at = this.#clock.monotonic();
    const isChange = before === undefined || before.honoured !== honoured || before.message !== message;
    const isDue = isChange || (!honoured && at - before.reportedAt >= REPEAT_BAD_AFTER_MS);
    this.#observations.set(proxyTo, { honoured, message, at, reportedAt: isDue ? at : before.reportedAt });
    if (isDue) this.#report({ cluster, proxyTo, honoured, message });
  }
}

const fix = "set http-server.process-forwarded=true in the engine's configuration";
