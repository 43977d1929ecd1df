import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { AnonymousCheck } from '../../../src/gateway/health/healthCheck.ts';
import { AddressGuard, ClusterTls } from '../../../src/gateway/tls/clusterTls.ts';
import { ClusterAddresses } from '../../../src/model/clusterAddresses.ts';
import { capturingLogger, closeAll, closing, clusterAt, startGateway } from '../../support/gateway.ts';
import { openChecks } from '../../support/healthChecks.ts';
import { send } from '../../support/rawHttp.ts';

afterEach(closeAll);

/** A cluster that counts its requests, behind names whose addresses the test sets. */
async function setUp(...allowed: string[]) {
  let requests = 0;
  const server = createServer((_request, response) => {
    requests++;
    response.end(JSON.stringify({ starting: false }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing({
    close: () => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  });
  const { port } = server.address() as AddressInfo;
  const names = new Map<string, readonly string[]>();
  const guard = new AddressGuard(new ClusterAddresses({ allowed, loopback: false }), (name, _options, callback) => {
    const found = names.get(name) ?? [];
    callback(
      null,
      found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    );
  });
  const tls = new ClusterTls({ current: { context: {} } as never }, true, () => null, guard, capturingLogger([]));
  const check = closing(openChecks({}, { tls })).kinds.INFO_API as AnonymousCheck;
  return {
    names,
    port,
    requests: () => requests,
    /** What a query gets at a cluster of this URL, and what a health check finds there. */
    ask: async (url: string) => {
      const gateway = await startGateway({ clusters: [clusterAt('a', url)], upstream: { tls } });
      const answer = await send(gateway.url, '/v1/info', { headers: ['X-Engine-User', 'u'] });
      const checked = await check.check({ cluster: 'a', proxyTo: url, path: null }, AbortSignal.timeout(5_000));
      return { status: answer.status, failures: gateway.connectionFailures.join(), checked };
    },
  };
}

describe('connections to clusters, by the address that they really go to', () => {
  test.each<[string, string, readonly string[], string]>([
    ['a metadata address', 'http://169.254.169.254:PORT', [], 'metadata service'],
    ['an address of IPv4 within one of IPv6', 'http://[::ffff:127.0.0.1]:PORT', [], "gateway's own machine"],
    ['the loopback address', 'http://127.0.0.1:PORT', [], "gateway's own machine"],
    ['a number that the URL parser makes the loopback address', 'http://2130706433:PORT', [], "gateway's own machine"],
    ['a name of the machine', 'http://localhost:PORT', ['127.0.0.1'], "gateway's own machine"],
    ['a name that resolves to loopback', 'http://engine.example:PORT', ['127.0.0.1'], 'is 127.0.0.1, which'],
    [
      'a name that resolves to a metadata address',
      'http://engine.example:PORT',
      ['169.254.169.254'],
      'metadata service',
    ],
    ['a name of IPv6', 'http://engine.example:PORT', ['fd00:ec2::254'], 'metadata service'],
    ['a name of several such', 'http://engine.example:PORT', ['fe80::1', '127.0.0.1'], 'link-local'],
    ['a name that resolves to the unspecified address', 'http://engine.example:PORT', ['0.0.0.0'], 'not an address'],
  ])('%s is refused, with the reason', async (_what, url, found, words) => {
    const { names, port, requests, ask } = await setUp();
    names.set('engine.example', found);
    names.set('localhost', found);
    const { status, failures, checked } = await ask(url.replace('PORT', String(port)));
    expect(status).toBe(503);
    expect(failures).toContain('address not allowed');
    expect(failures).toContain(words);
    expect(checked).toMatchObject({ health: 'UNHEALTHY', reason: expect.stringContaining(words) });
    expect(requests()).toBe(0);
  });

  test('a refused address of a name is left out, and the others are used', async () => {
    const { names, port, ask, requests } = await setUp('127.0.0.1');
    names.set('engine.example', ['169.254.169.254', 'fe80::1', '127.0.0.1']);
    const { status, checked } = await ask(`http://engine.example:${port}`);
    expect([status, checked.health]).toEqual([200, 'HEALTHY']);
    expect(requests()).toBe(2);
  });

  test('a name that resolves to something else later is looked at again (DNS rebinding)', async () => {
    const { names, port, ask } = await setUp('127.0.0.1');
    names.set('engine.example', ['127.0.0.1']);
    expect((await ask(`http://engine.example:${port}`)).status).toBe(200);
    names.set('engine.example', ['127.0.0.2']);
    const { status, failures } = await ask(`http://engine.example:${port}`);
    expect(status).toBe(503);
    expect(failures).toContain('is 127.0.0.2, which');
  });

  test('TLS connections are made by the same rule', async () => {
    const { names, port, ask } = await setUp();
    names.set('engine.example', ['169.254.169.254']);
    expect((await ask(`https://engine.example:${port}`)).failures).toContain('metadata service');
    expect((await ask(`https://169.254.169.254:${port}`)).failures).toContain('metadata service');
  });
});
