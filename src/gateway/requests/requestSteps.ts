import type { Logger } from 'pino';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { answer } from './ownAnswers.ts';

/** Goes on with requests from step to step; a step that throws is a defect: logged, and responded 500. */
export class RequestSteps {
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  settle<T>(proxied: ProxiedRequest, value: T | Promise<T>, next: (value: T) => void): void {
    if (!(value instanceof Promise)) {
      next(value);
      return;
    }
    value.then(
      (settled) => {
        if (!proxied.response.destroyed) this.guarded(proxied, () => next(settled));
      },
      (error: unknown) => this.defect(proxied, error),
    );
  }

  /** Runs a step that no one else catches the errors of. */
  guarded(proxied: ProxiedRequest, step: () => void): void {
    try {
      step();
    } catch (error) {
      this.defect(proxied, error);
    }
  }

  defect(proxied: ProxiedRequest, error: unknown): void {
    this.#logger.error({ err: error, path: proxied.target.path, method: proxied.method }, 'request failed');
    const { response } = proxied;
    if (response.headersSent) response.destroy();
    else
      answer(response, 500, ['content-type', 'text/plain; charset=utf-8'], 'The gateway failed; its log says why.\n');
  }
}
