import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { canBrowse, openWindow } from './support/browser.ts';
import { logIn } from './support/login.ts';
import { formAccess, type Rig, startRig } from './support/rig.ts';
import { expectSound } from './support/soundness.ts';

const rules = `name: etl
description: Loads go to their own cluster
priority: 1
condition: 'request.getHeader("X-Engine-Source") == "etl"'
actions:
- 'result.put("routingGroup", "etl")'
---
name: everything
description: The rest
priority: 0
condition: 'true'
actions:
- 'result.put("routingGroup", "adhoc")'
`;
/** Beside a rule with a priority, one without; and one that calculates otherwise than in Trino Gateway. */
const warnedRules = `name: first
description: Asked first here
priority: 5
condition: 'true'
actions:
- 'result.put("routingGroup", "etl")'
---
name: silent
description: Asked last here
condition: 'true'
actions:
- 'result.put("routingGroup", "adhoc")'
---
name: bare
priority: 6
condition: 'request.isSecure() < true'
actions:
- 'result.put("routingGroup", "adhoc")'
`;
const resource = (name: string, spec: object) =>
  stringify({ apiVersion: 'enginegateway.dev/v1', kind: 'RoutingRule', metadata: { name }, spec });

describe.skipIf(!canBrowse)('the page of routing rules', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig(formAccess(), rules);
    const resources = [
      resource('no-root', {
        priority: 5,
        condition: 'request.getHeader("X-Engine-User") == "root"',
        deny: { message: 'not as root' },
      }),
      resource('wrong', { priority: 6, condition: 'true &&', routeTo: { routingGroup: 'etl' } }),
    ];
    await writeFile(join(rig.manifests, 'rules.yaml'), resources.join('---\n'));
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  const open = async (user: string, colorScheme: 'light' | 'dark' = 'light') => {
    const window = await openWindow(`${rig.pages}/routing-rules`, { colorScheme });
    await logIn(window, user);
    await window.page.getByRole('heading', { level: 1, name: 'Routing Rules' }).waitFor();
    return window;
  };

  const headers = { Authorization: `Basic ${btoa('ada:ada')}`, 'Content-Type': 'application/json' };
  /** What a rule says, but for its description. */
  const ruleOf = async (name: string): Promise<Record<string, unknown>> => {
    const answer = await fetch(`${rig.gateway.url}/api/rules`, { headers });
    const { rules } = (await answer.json()) as { rules: Record<string, unknown>[] };
    const { priority, condition, actions } = rules.find((rule) => rule.name === name) ?? {};
    return { priority, condition, actions };
  };
  const put = async (name: string, rule: object): Promise<number> => {
    const answer = await fetch(`${rig.gateway.url}/api/rules/${name}`, {
      method: 'PUT',
      headers,
      body: JSON.stringify(rule),
    });
    return answer.status;
  };

  test.each(['light', 'dark'] as const)('shows rules in firing order with status and mistakes, %s', async (scheme) => {
    await using window = await open('ada', scheme);
    const { page } = window;
    const row = (name: string) => page.getByRole('row').filter({ hasText: name });
    await expect.poll(() => page.getByRole('row').count()).toBe(5);
    const names = await page.getByRole('row').evaluateAll((rows) => rows.map((each) => each.textContent ?? ''));
    expect(names.findIndex((text) => text.includes('etl'))).toBeLessThan(
      names.findIndex((text) => text.includes('no-root')),
    );
    expect(await row('no-root').textContent()).toContain('denied: not as root');
    expect(await row('wrong').textContent()).toMatch(/not accepted.*condition, line 1, column \d+:/);
    await expectSound(window);
    await page.getByRole('button', { name: 'Edit no-root' }).click();
    await page.getByRole('dialog').waitFor();
    await expectSound(window);
  });

  test('a mistake is shown at its place, an edit is tried before it is saved, then another browser sees it', async () => {
    await using window = await open('ada');
    await using other = await open('ada');
    const { page } = window;
    await page.getByRole('button', { name: 'Edit etl' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Condition').fill('true &&\n  request.');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByText(/^line 2, column \d+: /).waitFor();
    expect(await page.evaluate('document.activeElement.name')).toBe('condition');

    await dialog.getByLabel('Condition').fill('request.getHeader("X-Engine-Source") == "load"');
    await dialog.getByLabel('Headers').fill('X-Engine-Source: load');
    await dialog.getByRole('button', { name: 'Where would it go?' }).click();
    await dialog.getByText('etl-1: routing group etl').waitFor();
    const trace = dialog.getByRole('list', { name: 'Rules in firing order' });
    expect(await trace.getByRole('listitem').nth(1).textContent()).toContain('etlfired');
    expect(await readFile(rig.rulesFile, 'utf8')).toBe(rules);

    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await readFile(rig.rulesFile, 'utf8')).toContain('"load"');
    await other.page.getByText('== "load"').waitFor();
    await page.getByLabel('Headers').fill('X-Engine-User: root');
    await page.getByRole('button', { name: 'Where would it go?' }).click();
    await page.getByText('no-root: not as root').waitFor();
    expect(window.defects).toEqual([]);
  });

  test('a rule of a resource is suspended; one that changed meanwhile is not overwritten', async () => {
    await using window = await open('ada');
    const { page } = window;
    await page.getByRole('button', { name: 'Edit no-root' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Suspended').check();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    await page.getByRole('row').filter({ hasText: 'no-root' }).getByText('suspended', { exact: true }).waitFor();
    expect(await readFile(join(rig.manifests, 'rules.yaml'), 'utf8')).toContain('suspended: true');

    await page.getByRole('button', { name: 'Edit everything' }).click();
    await dialog.getByLabel('Description').fill('Mine');
    expect(await put('everything', { ...(await ruleOf('everything')), description: 'Theirs' })).toBe(200);
    await dialog.getByText('Somebody changed this rule since it was opened here.').waitFor();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByRole('alert').getByText('was changed meanwhile').waitFor();
    await expectSound(window);
    expect(await readFile(rig.rulesFile, 'utf8')).toContain('Theirs');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Edit everything' }).click();
    expect(await dialog.getByLabel('Description').inputValue()).toBe('Theirs');
    await dialog.getByLabel('Description').fill('Mine');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await readFile(rig.rulesFile, 'utf8')).toContain('Mine');
  });

  test('users without ADMIN see that the page needs ADMIN', async () => {
    await using window = await open('ursula');
    await window.page.getByRole('alert').getByText('Not for you').waitFor();
    expect(await window.page.getByRole('button', { name: 'Where would it go?' }).count()).toBe(0);
  });
});

describe.skipIf(!canBrowse)('the page of rules that mean something else in Trino Gateway', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig(formAccess(), warnedRules);
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test.each(['light', 'dark'] as const)('shows the warnings beside their rules, %s', async (colorScheme) => {
    await using window = await openWindow(`${rig.pages}/routing-rules`, { colorScheme });
    await logIn(window, 'ada');
    const { page } = window;
    const warnings = (rule: string) => page.getByRole('list', { name: `Warnings of ${rule}` });
    await warnings('silent').getByText('Trino Gateway takes it as 0 and asks this rule before "first"').waitFor();
    await warnings('bare').getByText('condition, line 1, column 20: < between a boolean and a boolean').waitFor();
    expect(await warnings('first').count()).toBe(0);
    const notice = page.getByRole('status').filter({ hasText: 'Rules with warnings' });
    const text = await notice.textContent();
    expect(text).toContain('2 rules run, but may not do what was meant, or what Trino Gateway does.');
    expect(text).toContain('rule bare: description is missing');
    expect(text).not.toContain('Trino Gateway takes it as 0');
    await expectSound(window);
  });
});
