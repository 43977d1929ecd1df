import type { CDPSession } from 'playwright-core';
import type { Window } from '../../test/ui/support/browser.ts';

/** Nothing is left to do for a page once its main thread was idle this often in a row. */
const IDLE_TIMES = 3;

/** Processor time of a page's main thread: scripts, styles, layout, painting. */
export class RendererTime {
  readonly #page: Window['page'];
  readonly #session: CDPSession;

  private constructor(page: Window['page'], session: CDPSession) {
    this.#page = page;
    this.#session = session;
  }

  static async of({ page }: Window): Promise<RendererTime> {
    const session = await page.context().newCDPSession(page);
    // Not the time that passes: others compute on the same machine.
    await session.send('Performance.enable', { timeDomain: 'threadTicks' });
    return new RendererTime(page, session);
  }

  /** Milliseconds that an action takes, until all that it leads to is painted. @param action resolves once it shows */
  async during(action: () => Promise<unknown>): Promise<number> {
    const before = await this.#taskSeconds();
    await action();
    await this.#settle();
    return ((await this.#taskSeconds()) - before) * 1_000;
  }

  async #taskSeconds(): Promise<number> {
    const { metrics } = await this.#session.send('Performance.getMetrics');
    return metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0;
  }

  async #settle(): Promise<void> {
    await this.#page.evaluate(
      `new Promise((done) => {
        let left = ${IDLE_TIMES};
        const wait = () => (left-- === 0 ? done() : requestAnimationFrame(() => requestIdleCallback(wait)));
        wait();
      })`,
    );
  }
}
