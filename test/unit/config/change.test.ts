import { expect, test } from 'vitest';
import { compareConfigs, liveKeys } from '../../../src/config/change.ts';
import type { GatewayConfig } from '../../../src/config/gatewayConfig.ts';
import { parseConfig } from '../../../src/config/loadConfig.ts';

function read(text: string): GatewayConfig {
  const result = parseConfig(text, {});
  if ('problems' in result) throw new Error(JSON.stringify(result.problems));
  return result.config;
}

test.each<[string, string, string, readonly string[], readonly string[]]>([
  ['nothing', 'routing: {strategy: leastLoaded}', 'routing: {strategy: leastLoaded}', [], []],
  ['a default written out', '', 'routing: {defaultRoutingGroup: adhoc}', [], []],
  ['another way to write it', 'routing: {asyncTimeout: 60s}', 'routing: {asyncTimeout: 1m}', [], []],
  ['a live key', '', 'monitor: {taskDelay: 5s}', ['monitor.taskDelay'], []],
  ['a map of free keys', '', 'routing: {groups: {a: {strategy: weightedRandom}}}', ['routing.groups'], []],
  ['a list', '', 'queryHistory: {redact: [a]}', ['queryHistory.redact'], []],
  ['a key for a restart', '', 'server: {adminPort: 1}', [], ['server.adminPort']],
  ['a key without effect', '', 'databaseCache: {enabled: true}', [], []],
])('%s', (_, before, after, live, restart) => {
  const change = compareConfigs(read(before), read(after));
  expect(change.live).toEqual(live);
  expect(change.restart).toEqual(restart);
});

test('without a live change the running configuration itself stays', () => {
  const running = read('');
  expect(compareConfigs(running, read('resources: {source: kubernetes}')).config).toBe(running);
});

test('the keys that are taken while running', () => expect(liveKeys()).toMatchSnapshot());
