import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { runProgram } from '../../support/commandLine.ts';
import { freePort } from '../../support/freePort.ts';

const folder = mkdtempSync(join(tmpdir(), 'missing-resources-'));
afterAll(() => rmSync(folder, { recursive: true }));
const write = (path: string, text: string): string => {
  writeFileSync(join(folder, path), text);
  return join(folder, path);
};
const config = (path: string, content: object): string =>
  write(path, stringify({ authentication: 'none', ...content }));
const rule = (condition: string): string =>
  stringify({
    ...{ apiVersion: 'enginegateway.dev/v1', kind: 'RoutingRule', metadata: { name: 'etl' } },
    spec: { condition, routeTo: { routingGroup: 'etl' } },
  });
const withDirectory = (name: string, directory: string): string =>
  config(`${name}.conf`, { resources: { source: 'directory', directory } });

for (const name of ['empty', 'other', 'rules', 'good']) mkdirSync(join(folder, name));
write('other/values.yaml', 'replicas: 2\n');
write('rules/etl.yaml', rule('request.getHeader("X-Trino-Source")'));
write('good/etl.yaml', rule('request.getHeader("X-Trino-Source") == "etl"'));

describe('config and validate exit with 1', () => {
  const never = 'is neither true nor false for any request, so that the rule always fails';
  test.each([
    ['for a missing directory', 'none', 'none: error: there is no such file or directory'],
    ['for an empty directory', 'empty', 'empty: error: no manifests, rules or resource groups are in it'],
    ['for a directory of other files', 'other', 'other: error: no manifests, rules or resource groups are in it'],
    ['for a condition that is never boolean', 'rules', `etl.yaml:6:14: error: etl: spec.condition: ${never}`],
  ])('%s', async (_, directory, message) => {
    const path = join(folder, directory);
    const validated = await runProgram(['validate', path]);
    expect([validated.code, validated.stdout]).toEqual([1, expect.stringContaining(message)]);
    const configured = await runProgram(['config', '--config', withDirectory(directory, path)]);
    expect([configured.code, configured.stderr, configured.stdout]).toEqual([1, expect.stringContaining(message), '']);
  });

  test('for a rules file with such a condition, and a missing kubeconfig', async () => {
    const rulesConfigPath = write(
      'rules.yaml',
      'name: a\ncondition: "1 + 1"\nactions: [\'result.put("routingGroup", "a")\']\n',
    );
    const ofRules = await runProgram([
      'config',
      '--config',
      config('rules.conf', { routingRules: { rulesConfigPath } }),
    ]);
    expect([ofRules.code, ofRules.stderr]).toEqual([
      1,
      expect.stringContaining(`rules.yaml:2:13: error: a: condition: ${never}`),
    ]);
    const kubeconfig = join(folder, 'none');
    const resources = { source: 'kubernetes', kubeconfig };
    const ofKubeconfig = await runProgram(['config', '--config', config('kubeconfig.conf', { resources })]);
    const message = `resources.kubeconfig: ${kubeconfig} cannot be read: there is no such file.`;
    expect([ofKubeconfig.code, ofKubeconfig.stderr]).toEqual([1, expect.stringContaining(message)]);
  });

  test('and with 0 for one that can be true', async () => {
    const path = join(folder, 'good');
    expect((await runProgram(['validate', path])).code).toBe(0);
    expect((await runProgram(['config', '--config', withDirectory('good', path)])).code).toBe(0);
  });
});

test('migrate and export name the cause of a database that cannot be used', async () => {
  const jdbcUrl = `jdbc:postgresql://127.0.0.1:${await freePort()}/gateway`;
  const file = config('refused.conf', { dataStore: { jdbcUrl, user: 'gateway' } });
  for (const command of ['migrate', 'export']) {
    const { code, stderr } = await runProgram([command, '--config', file]);
    const message = 'error: The database is unavailable: connection refused; check host and port in dataStore.jdbcUrl';
    expect([code, stderr]).toEqual([1, expect.stringContaining(message)]);
  }
});
