import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { DEFAULT_MONITOR_TYPE, monitorTypes } from '../../../src/model/monitorType.ts';
import { DEFAULT_STRATEGY, strategyNames } from '../../../src/model/strategies.ts';

/** Part of a page below a heading. */
async function section(page: string, heading: string): Promise<string> {
  const text = await readFile(page, 'utf8');
  return text.split(`\n${heading}\n`)[1]?.split(/\n#+ /)[0] ?? '';
}

describe('pages that explain each choice', () => {
  test('docs/health.md has a row for every type of check and marks the default', async () => {
    const rows = [
      ...(await section('docs/health.md', '## Types of checks')).matchAll(/^\| `(\w+)`( \(default\))? \|/gm),
    ];
    expect(rows.map(([, type]) => type)).toEqual([...monitorTypes]);
    expect(rows.filter(([, , isDefault]) => isDefault).map(([, type]) => type)).toEqual([DEFAULT_MONITOR_TYPE]);
  });

  test('docs/routing.md has an entry for every strategy and marks the default', async () => {
    const entries = [...(await section('docs/routing.md', '### Strategies')).matchAll(/^- `(\w+)`(, the default)?:/gm)];
    expect(entries.map(([, strategy]) => strategy)).toEqual([...strategyNames]);
    expect(entries.filter(([, , isDefault]) => isDefault).map(([, strategy]) => strategy)).toEqual([DEFAULT_STRATEGY]);
  });
});
