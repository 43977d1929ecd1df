import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { runProgram } from '../../support/commandLine.ts';
import { startGatewayWithFile } from '../../support/gatewayProcess.ts';
import { sessionKeyPair } from '../../support/sessionKeyPair.ts';

interface Example {
  readonly of: string;
  readonly config: string;
  /** File of the LDAP server that the configuration names. */
  readonly ldap?: string;
  /** What the product name is inferred as; Engine where nothing says more. */
  readonly product?: string;
  readonly serves?: boolean;
}

const fixtures = fileURLToPath(new URL('../../fixtures', import.meta.url));
const examples = parse(readFileSync(join(fixtures, 'config/referenceExamples.yaml'), 'utf8')) as readonly Example[];
const keys = sessionKeyPair();

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'reference-examples-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The files of an example, and what its placeholders stand for. */
function prepare({ config, ldap }: Example) {
  const path = join(folder, 'config.yaml');
  writeFileSync(path, config);
  const ldapFile = join(folder, 'ldap.yaml');
  if (ldap !== undefined) writeFileSync(ldapFile, ldap);
  const environment = {
    ...{ PORT: '0', DB_USER: 'gateway', DB_PASSWORD: 'abc', FIXTURES: fixtures, LDAP_FILE: ldapFile },
    JDBC_URL: `jdbc:sqlite:${join(mkdtempSync(join(folder, 'database-')), 'gateway.db')}`,
    ...{ PRIVATE_KEY: keys.privateKeyRsa, PUBLIC_KEY: keys.publicKeyRsa },
  };
  return { path, environment };
}

describe("keys of Trino Gateway's examples are accepted as they are", () => {
  test.each(examples)('config: $of', async (example) => {
    const { path, environment } = prepare(example);
    const { code, stdout, stderr } = await runProgram(['config', '--config', path], environment);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(parse(stdout).protocol.productName).toBe(example.product ?? 'Engine');
  });

  test.each(examples.filter(({ serves }) => serves === true))('serve: $of', async (example) => {
    const { path, environment } = prepare(example);
    const gateway = await startGatewayWithFile(path, environment);
    try {
      expect((await fetch(`${gateway.url}/livez`)).status).toBe(200);
    } finally {
      await gateway.stop();
    }
  });
});
