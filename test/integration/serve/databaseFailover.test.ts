import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type GatewayProcess, startGateway } from '../../support/gatewayProcess.ts';
import { hasPostgresql, startPostgresql } from '../../support/postgresql.ts';
import { type Standby, startStandby } from '../../support/postgresqlStandby.ts';
import type { TestServer } from '../../support/serverProcess.ts';

describe.skipIf(!hasPostgresql())('a gateway on a PostgreSQL primary and its standby, both in jdbcUrl', () => {
  let primary: TestServer;
  let standby: Standby;
  let gateway: GatewayProcess;
  beforeAll(async () => {
    primary = await startPostgresql();
    const settings = await primary.createDatabase();
    standby = await startStandby(primary.port);
    // The standby is listed first, as it may be after an earlier failover.
    const hosts = `127.0.0.1:${standby.port},127.0.0.1:${primary.port}`;
    const jdbcUrl = settings.jdbcUrl.replace(/\/\/[^/]+/, `//${hosts}`);
    gateway = await startGateway({
      authentication: 'none',
      dataStore: { ...settings, jdbcUrl: `${jdbcUrl}?targetServerType=primary` },
    });
  }, 120_000);
  afterAll(async () => {
    await gateway?.stop();
    await standby?.dispose();
    await primary?.dispose();
  });

  const add = async (name: string): Promise<number> => {
    const body = JSON.stringify({ name, proxyTo: 'http://127.0.0.1:9', active: true, routingGroup: 'adhoc' });
    const headers = { 'content-type': 'application/json' };
    return (await fetch(`${gateway.url}/gateway/backend/modify/add`, { method: 'POST', headers, body })).status;
  };
  const names = async (): Promise<readonly string[]> => {
    const rows = (await (await fetch(`${gateway.url}/gateway/backend/all`)).json()) as { readonly name: string }[];
    return rows.map(({ name }) => name);
  };

  test('writes to the primary, and to the standby once it has taken over', async () => {
    expect(await add('before')).toBe(200);
    await primary.stop(true);
    await standby.promote();
    // A write while nobody took one may have been refused; the row is there then, or the call can be repeated.
    await expect.poll(() => add('after'), { timeout: 60_000, interval: 500 }).toBe(200);
    expect(await names()).toEqual(expect.arrayContaining(['before', 'after']));
    expect(gateway.log.some(({ msg }) => msg === 'database host unavailable')).toBe(true);
  }, 90_000);
});
