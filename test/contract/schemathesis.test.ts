import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { databases, type TestDatabase } from '../support/databases.ts';
import { type GatewayProcess, startGateway } from '../support/gatewayProcess.ts';
import { runSchemathesis, schemathesisAvailable } from '../support/schemathesis.ts';
import { sessionKeyPair } from '../support/sessionKeyPair.ts';

const SECONDS = 35;
const keys = sessionKeyPair();
/** Made-up logins must not lock the suite out. */
const withLogin = {
  authentication: {
    form: { selfSignKeyPair: { privateKeyRsa: keys.privateKeyRsa, publicKeyRsa: keys.publicKeyRsa } },
    loginLimit: { maxAttempts: 10_000 },
  },
  authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
  presetUsers: { root: { password: 'secret', privileges: 'ADMIN_USER_API' } },
};

describe.skipIf(!schemathesisAvailable).each([
  ['engine', 'mysql', 'off', {}, undefined],
  ['trino', 'postgresql', 'on', withLogin, 'root:secret'],
] as const)('paths below /%s on %s with login %s', (segment, dialect, _login, access, basic) => {
  const family = databases.find(({ name }) => name === dialect);
  const folder = mkdtempSync(join(tmpdir(), 'contract-'));
  let database: TestDatabase | undefined;
  let gateway: GatewayProcess | undefined;

  beforeAll(async () => {
    if (family?.available() !== true) return;
    database = await family.start();
    const rules = join(folder, 'rules.yaml');
    writeFileSync(
      rules,
      `name: r\ndescription: d\ncondition: 'true'\nactions: ['result.put("routingGroup", "adhoc")']\n`,
    );
    gateway = await startGateway({
      ...access,
      dataStore: await database.create(),
      resources: { source: 'database' },
      routingRules: { rulesEngineEnabled: true, rulesConfigPath: rules },
    });
  });
  afterAll(async () => {
    await gateway?.stop();
    await database?.dispose();
    rmSync(folder, { recursive: true, force: true });
  });

  test('finds no answer that is a defect or not documented', async (context) => {
    if (gateway === undefined) return context.skip();
    const seed = 20_261_121;
    const document = join(folder, 'openapi.json');
    const text = await (await fetch(`${gateway.url}/openapi.json`)).text();
    writeFileSync(document, text.replaceAll('"/engine/', `"/${segment}/`));
    const run = await runSchemathesis(gateway.url, {
      seconds: SECONDS,
      seed,
      document,
      ...(basic === undefined ? {} : { basic }),
    });
    expect(run.output).toContain('No issues found');
    expect(run.exitCode).toBe(0);
    expect(gateway.log.filter(({ msg }) => msg === 'api call failed')).toEqual([]);
  });
});
