import { spawnSync } from 'node:child_process';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { requireComponent } from '../support/components.ts';
import { OtherClient, RawConnection, startTarget, type Target } from './target.ts';

const IDLE = 10_000;
/** What an idle connection may cost the gateway, in MB. */
const MB_PER_CONNECTION = 0.03;
const MB_ASIDE = 80;
/** Connections that are opened at once, well below the backlog of a listening socket. */
const AT_ONCE = 200;

const openFiles = spawnSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).stdout.trim();
const enough = requireComponent(
  `the right to open ${IDLE + 1_000} files`,
  openFiles === 'unlimited' || Number(openFiles) > IDLE + 1_000,
  'raise the hard limit of open files (ulimit -Hn)',
);

describe.skipIf(!enough)(`${IDLE} idle connections`, { retry: 2 }, () => {
  let target: Target;
  const connections: RawConnection[] = [];
  beforeEach(async () => {
    // Half of them never send a head; opening all must not take longer than a gateway waits for one.
    target = await startTarget({ server: { headersTimeout: '10m', requestTimeout: '10m' } });
  });
  afterEach(async () => {
    for (const { socket } of connections.splice(0)) socket.destroy();
    await target?.close();
  });

  test('cost a bounded memory each; others are served; the gateway stops at once for all that', async () => {
    const memory = target.memory();
    const other = new OtherClient(target);
    while (connections.length < IDLE) {
      const opened = await Promise.all(Array.from({ length: AT_ONCE }, () => new RawConnection(target.port).open()));
      // Half of them have been used, as those of clients that keep them for their next query.
      for (const [index, each] of opened.entries()) {
        if (index % 2 === 0) each.send('GET /v1/node HTTP/1.1\r\nHost: x\r\n\r\n');
      }
      connections.push(...opened);
    }
    const answered = () => connections.filter((each) => each.statuses[0] === 200).length;
    await expect.poll(answered, { timeout: 60_000, interval: 500 }).toBe(IDLE / 2);
    expect(connections.filter((each) => each.closed).length).toBe(0);
    expect(target.memory() - memory).toBeLessThan(MB_ASIDE + IDLE * MB_PER_CONNECTION);
    const { served, slowestMs } = await other.stop();
    expect(served).toBeGreaterThan(0);
    console.log(
      `${IDLE} idle connections: ${Math.round(target.memory() - memory)} MB; others: ${served} served, slowest ${Math.round(slowestMs)} ms`,
    );
    const stoppedAt = performance.now();
    expect(await target.gateway.stop()).toBe(0);
    expect(performance.now() - stoppedAt).toBeLessThan(15_000);
  });
});
