import { Registry } from 'prom-client';
import { afterEach, describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../../demo/simulatedEngine.ts';
import { RequestBodies } from '../../../src/gateway/bodies/requestBodies.ts';
import { RawConnection } from '../../abuse/target.ts';
import { closeAll, closing, clusterAt, startGateway, until } from '../../support/gateway.ts';
import { send } from '../../support/rawHttp.ts';

afterEach(closeAll);

const KB = 1024;
const headers = ['X-Engine-User', 'u'];

async function gatewayWith(memory: number) {
  const engine = closing(await startSimulatedEngine({ name: 'a' }));
  const registry = new Registry();
  const bodies = new RequestBodies(memory, registry);
  const gateway = await startGateway({ clusters: [clusterAt('a', engine.url)], bodies });
  const inUse = async () => Number(/^engine_gateway_request_memory_bytes (\S+)/m.exec(await registry.metrics())?.[1]);
  return { gateway, inUse, registry };
}

const head = (length: number) =>
  `POST /v1/statement HTTP/1.1\r\nHost: x\r\nX-Engine-User: u\r\nContent-Length: ${length}\r\n\r\n`;

describe('memory for bodies', () => {
  test('a request that there is no memory for is answered 503 and its connection closed; small ones are served', async () => {
    const { gateway, inUse, registry } = await gatewayWith(350 * KB);
    const held: RawConnection[] = [];
    for (let index = 0; index < 3; index++) {
      const connection = await new RawConnection(gateway.port).open();
      connection.send(head(100_000));
      connection.send('x'.repeat(80_000));
      held.push(connection);
      await until(async () => (await inUse()) >= (index + 1) * 80_000, 'the body to be read');
    }
    const refused = await new RawConnection(gateway.port).open();
    refused.send(head(100_000) + 'x'.repeat(80_000));
    await expect.poll(() => refused.closed, { timeout: 10_000 }).toBe(true);
    expect(refused.statuses).toEqual([503]);
    expect(refused.received).toContain('server.requestMemory');
    const served = await send(gateway.url, '/v1/statement', { method: 'POST', headers, body: 'SELECT 1' });
    expect([served.status, JSON.parse(served.text).error]).toEqual([200, undefined]);
    for (const connection of held) connection.socket.destroy();
    await until(async () => (await inUse()) === 0, 'the memory to be given back');
    expect(await registry.metrics()).toContain(
      'engine_gateway_request_bodies_refused_total{reason="request_memory"} 1',
    );
  });

  test('an answered request gives back what it held', async () => {
    const { gateway, inUse } = await gatewayWith(350 * KB);
    for (let count = 0; count < 20; count++) {
      const { status } = await send(gateway.url, '/v1/statement', {
        method: 'POST',
        headers,
        body: `SELECT '${'x'.repeat(70_000)}'`,
      });
      expect(status).toBe(200);
    }
    await until(async () => (await inUse()) === 0, 'the memory to be given back');
  });
});
