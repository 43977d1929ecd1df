import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { requireComponent } from '../support/components.ts';

const luaAvailable = requireComponent(
  'lua5.4',
  spawnSync('lua5.4', ['-v']).status === 0,
  "install Debian's package lua5.4",
);

/** Writes a plain value as a Lua literal. */
function lua(value: unknown): string {
  if (Array.isArray(value)) return `{${value.map(lua).join(',')}}`;
  if (typeof value === 'object' && value !== null) {
    return `{${Object.entries(value)
      .map(([key, item]) => `["${key}"]=${lua(item)}`)
      .join(',')}}`;
  }
  return JSON.stringify(value);
}

const script = readFileSync('manifests/gitops/argocd-health.lua', 'utf8');
const health = (obj: object): string =>
  execFileSync('lua5.4', ['-'], {
    input: `obj = ${lua(obj)}\nlocal function check()\n${script}\nend\nlocal h = check()\nprint(h.status .. ": " .. h.message)`,
    encoding: 'utf8',
  }).trim();
const condition = (type: string, status: string, message: string) => ({ type, status, message });

describe.skipIf(!luaAvailable)('the Argo CD health check', () => {
  test.each([
    ['never seen by the gateway', { metadata: { generation: 1 } }, 'Progressing: Waiting for the gateway'],
    [
      'changed since',
      {
        metadata: { generation: 2 },
        status: { observedGeneration: 1, conditions: [condition('Ready', 'True', 'old')] },
      },
      'Progressing: Waiting for the gateway',
    ],
    [
      'ready',
      {
        metadata: { generation: 1 },
        status: { observedGeneration: 1, conditions: [condition('Ready', 'True', 'routed')] },
      },
      'Healthy: routed',
    ],
    [
      'ready while the engine is down',
      {
        metadata: { generation: 1 },
        status: {
          observedGeneration: 1,
          conditions: [condition('Healthy', 'False', 'down'), condition('Ready', 'True', 'routed')],
        },
      },
      'Healthy: routed',
    ],
    [
      'not yet in the database',
      {
        metadata: { generation: 1 },
        status: { observedGeneration: 1, conditions: [condition('Ready', 'False', 'database away')] },
      },
      'Progressing: database away',
    ],
    [
      'never going to work',
      {
        metadata: { generation: 1 },
        status: {
          observedGeneration: 1,
          conditions: [condition('Ready', 'False', 'x'), condition('Stalled', 'True', 'line 1:3: unknown')],
        },
      },
      'Degraded: line 1:3: unknown',
    ],
  ])('%s', (_name, obj, expected) => {
    expect(health(obj)).toBe(expected);
  });
});
