import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import manifest from '../../../package.json' with { type: 'json' };
import { runProgram } from '../../support/commandLine.ts';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'cli-'));
});
afterAll(() => rmSync(folder, { recursive: true }));

function file(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

test('--version', async () => {
  expect(await runProgram(['--version'])).toEqual({ code: 0, stdout: `${manifest.version}\n`, stderr: '' });
});

test('--help names the commands', async () => {
  const { code, stdout } = await runProgram(['--help']);
  expect(code).toBe(0);
  for (const command of ['serve', 'config']) expect(stdout).toContain(command);
});

test.each([
  ['no command', [], 'Usage: engine-gateway'],
  ['an unknown command', ['confg'], "unknown command 'confg'"],
  ['an unknown option', ['config', '--confg', 'x'], "unknown option '--confg'"],
  ['an option without its value', ['config', '--config'], "option '-c, --config <file>' argument missing"],
])('%s is a mistake of usage', async (_, args, message) => {
  const { code, stdout, stderr } = await runProgram(args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(message);
});

describe('config', () => {
  test('prints the effective configuration, masked', async () => {
    const path = file(
      'good.yaml',
      'dataStore:\n  password: ${ENV:DB_PASSWORD}\nrouting: {asyncTimeout: 90s}\nmodules: [x.Y]\n',
    );
    const { code, stdout, stderr } = await runProgram(['config', '--config', path], { DB_PASSWORD: 'hunter2' });
    expect(code).toBe(0);
    expect(parse(stdout)).toMatchObject({ dataStore: { password: '***' }, routing: { asyncTimeout: '90s' } });
    expect(stderr).toMatch(
      /^\S+: authentication: is not configured, so the gateway listens on this machine alone .*\n/,
    );
    expect(stderr.split('\n').slice(1).join('\n')).toBe(
      `${path}:4: modules[0]: accepted, without effect: classes cannot be loaded here ("x.Y")\n`,
    );
    expect(stdout + stderr).not.toContain('hunter2');
  });

  test('without a file prints the defaults', async () => {
    expect(parse((await runProgram(['config'])).stdout)).toMatchObject({ routing: { defaultRoutingGroup: 'adhoc' } });
  });

  test('reports every mistake and fails', async () => {
    const path = file('bad.yaml', 'routing:\n  asyncTimeout: 5\nmonitr: {}\n');
    expect(await runProgram(['config', '-c', path])).toEqual({
      code: 1,
      stdout: '',
      stderr: [
        `${path}:2: routing.asyncTimeout: needs a unit: write 5s (units ns, us, ms, s, m, h, d)`,
        `${path}:3: monitr: is not known; did you mean "monitor"?`,
        `${path} has 2 mistakes`,
        '',
      ].join('\n'),
    });
  });

  test('an unset variable stops it', async () => {
    const path = file('unset.yaml', 'dataStore:\n  password: ${ENV:NOT_SET_ANYWHERE}\n');
    const { code, stderr } = await runProgram(['config', '--config', path]);
    expect(code).toBe(1);
    expect(stderr).toContain(`${path}:2: Configuration references unset environment variable 'NOT_SET_ANYWHERE'`);
  });
});

test('serve does not start with mistakes', async () => {
  const path = file('bad-serve.yaml', 'routing: 5\n');
  const { code, stderr } = await runProgram(['serve', '--config', path]);
  expect(code).toBe(1);
  expect(stderr).toContain(`${path}:1: routing: must be a group of keys`);
});
