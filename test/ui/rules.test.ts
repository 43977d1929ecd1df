import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { manifest } from '../support/manifest.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { logIn } from './support/login.ts';
import { formAccess, type Rig, startRig } from './support/rig.ts';
import { expectSound, expectSoundInBothSchemes } from './support/soundness.ts';

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
const resource = (name: string, spec: object) => stringify(manifest('RoutingRule', name, spec));

describe.skipIf(!canBrowse)('the page of routing rules', () => {
  let rig: Rig;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ui-rules-'));
    const groupFile = join(folder, 'groups.txt');
    await writeFile(groupFile, 'analysts:zoe\nstaff:zoe,ursula\n');
    rig = await startRig(
      {
        ...formAccess(),
        requestAnalyzerConfig: { analyzeRequest: true },
        queryHistory: { writeBeforeAnswer: true },
        userGroups: { claimedUsers: ['header'], file: { path: groupFile } },
      },
      rules,
    );
    const resources = [
      resource('no-contractors', {
        priority: 4,
        condition: 'engineRequestUser.isInGroup("contractors")',
        deny: { message: 'not for contractors' },
      }),
      resource('no-root', {
        priority: 5,
        condition: 'request.getHeader("X-Engine-User") == "root"',
        deny: { message: 'not as root' },
      }),
      resource('wrong', { priority: 6, condition: 'true &&', routeTo: { routingGroup: 'etl' } }),
    ];
    await writeFile(join(rig.manifests, 'rules.yaml'), resources.join('---\n'));
  });
  afterAll(async () => {
    await rig?.[Symbol.asyncDispose]();
    await rm(folder, { recursive: true });
  });

  const open = async (user: string) => {
    const window = await openWindow(`${rig.pages}/routing-rules`);
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
  /** Sends a query; it is in the history then. */
  const submit = async (source: string): Promise<void> => {
    const answer = await fetch(`${rig.gateway.url}/v1/statement`, {
      method: 'POST',
      headers: { 'X-Engine-User': 'ann', 'X-Engine-Source': source },
      body: 'SELECT 1',
    });
    expect(answer.status).toBe(200);
  };
  const put = async (name: string, rule: object): Promise<number> => {
    const answer = await fetch(`${rig.gateway.url}/api/rules/${name}`, {
      method: 'PUT',
      headers,
      body: JSON.stringify(rule),
    });
    return answer.status;
  };

  test('shows rules in firing order with status and mistakes', async () => {
    await using window = await open('ada');
    const { page } = window;
    const row = (name: string) => page.getByRole('row').filter({ hasText: name });
    await expect.poll(() => page.getByRole('row').count()).toBe(6);
    const names = await page.getByRole('row').evaluateAll((rows) => rows.map((each) => each.textContent ?? ''));
    expect(names.findIndex((text) => text.includes('etl'))).toBeLessThan(
      names.findIndex((text) => text.includes('no-root')),
    );
    expect(await row('no-root').textContent()).toContain('denied: not as root');
    expect(await row('wrong').textContent()).toMatch(/not accepted.*condition, line 1, column \d+:/);
    await expectSoundInBothSchemes(window);
    await page.getByRole('button', { name: 'Edit no-root' }).click();
    await page.getByRole('dialog').waitFor();
    await expectSoundInBothSchemes(window);
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

    await submit('load');
    await submit('etl');
    const impact = dialog.getByRole('region', { name: 'Impact' });
    await impact.getByRole('button', { name: 'What would move?' }).click();
    await impact.getByText('2 of 2 queries would move').waitFor();
    const moves = await impact.getByRole('table', { name: 'Moves' }).getByRole('row').allTextContents();
    expect(moves.sort()).toEqual(['FromToQueries', 'group adhocgroup etl1', 'group etlgroup adhoc1']);
    expect(await impact.getByRole('region', { name: 'By user' }).textContent()).toContain('ann: 2 of 2 queries');
    await impact.getByRole('button', { name: 'group adhoc → group etl' }).click();
    await impact.getByText('With this edit', { exact: true }).filter({ visible: true }).waitFor();
    const [now, edited] = await impact.getByRole('list', { name: 'Rules in firing order' }).all();
    expect([await now?.textContent(), await edited?.textContent()]).toEqual([
      expect.stringContaining('etldid not match'),
      expect.stringContaining('etlfired'),
    ]);
    await expectSound(window);

    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await readFile(rig.rulesFile, 'utf8')).toContain('"load"');
    await other.page.getByText('== "load"').waitFor();
    await page.getByLabel('Headers').fill('X-Engine-User: root');
    await page.getByRole('button', { name: 'Where would it go?' }).click();
    await page.getByText('no-root: not as root').waitFor();
    expect(window.defects).toEqual([]);
  });

  test('groups of a user are shown with where they come from, and others are tried in their place', async () => {
    await using window = await open('ada');
    const { page } = window;
    const ask = () => page.getByRole('button', { name: 'Where would it go?' }).click();
    const said = page.getByText(/^Groups: /);
    await page.getByLabel('User', { exact: true }).fill('zoe');
    await ask();
    await page.getByText('Groups: analysts, staff (file)').waitFor();
    await expectSound(window);
    await page.getByLabel('Groups of the user').fill('staff, contractors');
    await ask();
    await page.getByText('Groups: staff, contractors (as given)').waitFor();
    await page.getByText('no-contractors: not for contractors').waitFor();
    await page.getByLabel('Groups of the user').fill('');
    await page.getByLabel('User', { exact: true }).fill('ann');
    await ask();
    await expect.poll(() => said.textContent()).toBe('Groups: none (file)');
    expect(window.defects).toEqual([]);

    await using other = await open('ursula');
    expect(await other.page.getByLabel('Groups of the user').count()).toBe(0);
    await other.page.getByRole('button', { name: 'Where would it go?' }).click();
    await other.page.getByText('Groups: staff (file)').waitFor();
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
    expect(await readFile(join(rig.manifests, 'rules.yaml'), 'utf8')).toContain('suspend: true');

    await page.getByRole('button', { name: 'Edit everything' }).click();
    await dialog.getByLabel('Description').fill('Mine');
    expect(await put('everything', { ...(await ruleOf('everything')), description: 'Theirs' })).toBe(200);
    await dialog.getByText('Somebody changed this rule since it was opened here.').waitFor();
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.getByRole('alert').getByText('was changed meanwhile').waitFor();
    await expectSound(window);
    expect(await readFile(rig.rulesFile, 'utf8')).toContain('Theirs');
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Discard' }).click();
    await dialog.first().waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Edit everything' }).click();
    expect(await dialog.getByLabel('Description').inputValue()).toBe('Theirs');
    await dialog.getByLabel('Description').fill('Mine');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await dialog.waitFor({ state: 'detached' });
    expect(await readFile(rig.rulesFile, 'utf8')).toContain('Mine');
  });

  test('an edit, a suspension and a deletion can be taken back, unless somebody changed the rule meanwhile', async () => {
    const file = join(rig.manifests, 'undo.yaml');
    const spec = {
      priority: 8,
      description: 'Reports',
      condition: 'request.getHeader("X-Engine-Source") == "report"',
      routeTo: { routingGroup: 'etl' },
    };
    await writeFile(file, resource('report', spec));
    await using window = await open('ada');
    const { page } = window;
    const row = page.getByRole('row').filter({ hasText: 'report' });
    const dialog = page.getByRole('dialog');
    const notice = (text: string) => page.getByRole('status').filter({ hasText: text });
    const alert = (title: string) => page.getByRole('alert').filter({ hasText: title });
    const listed = async () => {
      const answer = await fetch(`${rig.gateway.url}/api/rules`, { headers });
      const { rules } = (await answer.json()) as { rules: Record<string, unknown>[] };
      const { description, priority, condition, routeTo, suspend } = rules.find((rule) => rule.name === 'report') ?? {};
      return { description, priority, condition, routeTo, suspend };
    };
    const edit = async (change: () => Promise<unknown>) => {
      await page.getByRole('button', { name: 'Edit report' }).click();
      await change();
      await dialog.getByRole('button', { name: 'Save' }).click();
      await dialog.waitFor({ state: 'detached' });
    };
    await row.getByText('in force').waitFor();
    const before = await listed();

    await edit(() => dialog.getByLabel('Suspended').check());
    await row.getByText('suspended', { exact: true }).waitFor();
    const suspended = notice('The rule report is suspended.').getByRole('button', { name: 'Undo' });
    // Notices stay while the mouse is over them.
    await suspended.hover();
    await expectSound(window);
    await suspended.click();
    await notice('The rule report is as it was before.').waitFor();
    await row.getByText('in force').waitFor();
    expect(await listed()).toEqual(before);

    await edit(() => dialog.getByRole('textbox', { name: 'Routing group' }).fill('adhoc'));
    await row.getByText('→ group adhoc').waitFor();
    const changed = notice('The rule report is changed.').getByRole('button', { name: 'Undo' });
    await changed.hover();
    expect(await put('report', { ...spec, description: 'Theirs' })).toBe(200);
    await changed.click();
    const refused = alert('The rule report was not changed back');
    await refused.getByText('the rule report was changed meanwhile; look at it again').waitFor();
    expect(await listed()).toEqual({ ...before, description: 'Theirs' });
    await refused.getByRole('button', { name: 'Close' }).click();

    const remove = async () => {
      await page.getByRole('button', { name: 'Delete report' }).click();
      await dialog.getByRole('button', { name: 'Delete' }).click();
      await row.waitFor({ state: 'detached' });
    };
    await remove();
    await notice('The rule report is deleted.').getByRole('button', { name: 'Undo' }).click();
    await notice('The rule report is there again.').waitFor();
    await row.getByText('in force').waitFor();
    expect(await listed()).toEqual({ ...before, description: 'Theirs' });

    await remove();
    const deleted = notice('The rule report is deleted.').getByRole('button', { name: 'Undo' });
    await deleted.hover();
    const body = JSON.stringify({ name: 'report', ...spec, description: 'Another one' });
    expect((await fetch(`${rig.gateway.url}/api/rules`, { method: 'POST', headers, body })).status).toBe(200);
    await deleted.click();
    await alert('The rule report was not added again').getByText('a rule named report already exists').waitFor();
    expect(await listed()).toEqual({ ...before, description: 'Another one' });
    const gone = await fetch(`${rig.gateway.url}/api/rules/report`, { method: 'DELETE', headers });
    expect(gone.ok).toBe(true);
    expect(window.defects).toEqual([]);
  });

  test('a rule is added, changed after a look at what changes, and deleted; edits are not lost unasked', async () => {
    await using window = await open('ada');
    const { page } = window;
    const row = page.getByRole('row').filter({ hasText: 'nightly' });
    const dialog = (title: string) => page.getByRole('dialog', { name: title });
    await page.getByRole('button', { name: 'Add a rule' }).click();
    const adding = dialog('Add a rule');
    await adding.getByText('Written to a new resource').waitFor();
    await adding.getByLabel('Name').fill('nightly');
    await adding.getByLabel('Priority').fill('7');
    await adding.getByLabel('Condition').fill('request.getHeader("X-Engine-Source") == "nightly"');
    await adding.getByRole('textbox', { name: 'Routing group' }).fill('etl-night');
    await adding.getByLabel('Headers').fill('X-Engine-Source: nightly');
    await adding.getByRole('button', { name: 'Where would it go?' }).click();
    await adding.getByRole('list', { name: 'Rules in firing order' }).getByText('nightly').waitFor();
    await page.keyboard.press('Escape');
    await dialog('Discard the edits?').getByRole('button', { name: 'Cancel' }).click();
    expect(await adding.getByLabel('Name').inputValue()).toBe('nightly');
    await adding.getByRole('button', { name: 'Add', exact: true }).click();
    await adding.waitFor({ state: 'detached' });
    await row.getByText('leads nowhere').waitFor();
    await row
      .getByText(/etl-night/)
      .first()
      .waitFor();
    await expectSound(window);

    await page.getByRole('button', { name: 'Edit nightly' }).click();
    const editing = dialog('Edit nightly');
    const changes = editing.getByRole('region', { name: 'What changes' });
    await changes.getByText('Nothing yet.').waitFor();
    await editing.getByText(/^Written to .*routingrule-nightly\.yaml/).waitFor();
    await editing.getByRole('textbox', { name: 'Routing group' }).fill('etl');
    await editing.getByLabel('Priority').fill('');
    expect(await changes.getByRole('deletion').allTextContents()).toEqual(['7', 'group etl-night']);
    expect(await changes.getByRole('insertion').allTextContents()).toEqual(['none', 'group etl']);
    await expectSound(window);
    // The dialog stands in the address, and a reload warns while there are edits.
    expect(new URL(page.url()).searchParams.get('rule')).toBe('nightly');
    const warning = page.waitForEvent('dialog');
    void page.reload().catch(() => undefined);
    await (await warning).dismiss();
    const question = dialog('Discard the edits?');
    for (const lead of [
      () => page.goBack(),
      async () => {
        await page.keyboard.press('Control+k');
        await page.getByRole('option', { name: 'Limits' }).click();
      },
    ]) {
      void lead();
      await question.getByRole('button', { name: 'Cancel' }).click();
      await question.waitFor({ state: 'detached' });
      expect(new URL(page.url()).searchParams.get('rule')).toBe('nightly');
    }
    await editing.getByRole('button', { name: 'Save' }).click();
    await editing.waitFor({ state: 'detached' });
    await expect.poll(() => row.getByText('leads nowhere').count()).toBe(0);
    const focused = () => page.evaluate('document.activeElement.getAttribute("aria-label")');
    await expect.poll(focused).toBe('Edit nightly');
    await page.keyboard.press('Enter');
    await editing.waitFor();
    await page.goBack();
    await editing.waitFor({ state: 'detached' });
    await page.getByRole('heading', { level: 1, name: 'Routing Rules' }).waitFor();

    await page.getByLabel('Search rules').fill('NIGHTLY');
    await expect.poll(() => page.getByRole('row').count()).toBe(2);
    expect(new URL(page.url()).searchParams.get('search')).toBe('NIGHTLY');
    await page.getByRole('button', { name: 'Delete nightly' }).click();
    const asking = dialog('Delete nightly?');
    await asking.getByText(/routingrule-nightly\.yaml.*Requests are decided without it at once\./).waitFor();
    await asking.getByRole('button', { name: 'Delete' }).click();
    await page.getByText('No rule matches the search.').waitFor();
    expect(window.defects).toEqual([]);
  });

  test('users without ADMIN see no rules, and try where queries of their own would go', async () => {
    await using window = await open('ursula');
    const { page } = window;
    await page.getByText('Rules are listed for administrators.').waitFor();
    expect(await page.getByRole('button', { name: /^Edit/ }).count()).toBe(0);
    expect(await page.getByLabel('User', { exact: true }).inputValue()).toBe('ursula');
    await page.getByLabel('Headers').fill('X-Engine-Source: load');
    await page.getByRole('button', { name: 'Where would it go?' }).click();
    await page.getByText('User: ursula').waitFor();
    await page.getByRole('list', { name: 'Rules in firing order' }).waitFor();
    await expectSound(window);
    await page.getByLabel('Headers').fill('X-Engine-User: root');
    await page.getByRole('button', { name: 'Where would it go?' }).click();
    await page
      .getByText('"ursula" may have requests of their own explained; leave headers.X-Engine-User out')
      .waitFor();
    const menu = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
    const visible = [
      'Dashboard',
      'Active Backends',
      'Query History',
      'Workload',
      'Replays',
      'Routing Rules',
      'Limits',
      'Queue',
    ];
    expect(await menu.allTextContents()).toEqual(visible);
  });

  test.each([
    ['own', {}, 200],
    ['own, by name', { user: 'ursula', headers: { 'x-engine-user': 'ursula' } }, 200],
    ["somebody else's", { user: 'ada' }, 403],
    ["somebody else's, by header", { headers: { 'X-ENGINE-USER': 'ada' } }, 403],
    ["somebody else's among two", { headers: { 'X-Engine-User': ['ursula', 'ada'] } }, 403],
    ["somebody else's original", { headers: { 'X-Engine-Original-User': 'ada' } }, 403],
    ["somebody else's credentials", { headers: { Authorization: `Basic ${btoa('ada:x')}` } }, 403],
    ["somebody else's cookie", { headers: { Cookie: 'Engine-UI-Token=x' } }, 403],
    ['a rule of theirs', { rule: { name: 'mine', condition: 'true', routeTo: { routingGroup: 'etl' } } }, 403],
  ])('a user may have explained by REST: %s', async (_whose, body, status) => {
    const response = await fetch(`${rig.gateway.url}/api/explain`, {
      method: 'POST',
      headers: { ...headers, Authorization: `Basic ${btoa('ursula:ursula')}` },
      body: JSON.stringify(body),
    });
    const answer = (await response.json()) as { request?: { user: string }; conditions?: unknown };
    expect([response.status, answer.request?.user, answer.conditions]).toEqual(
      status === 200 ? [200, 'ursula', []] : [status, undefined, undefined],
    );
  });
});

describe.skipIf(!canBrowse)('the page of rules that mean something else in Trino Gateway', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig(formAccess(), warnedRules);
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test('shows the warnings beside their rules', async () => {
    await using window = await openWindow(`${rig.pages}/routing-rules`);
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
    await expectSoundInBothSchemes(window);
  });
});

describe.skipIf(!canBrowse)('the page of thousands of rules', () => {
  const RULES = 3_000;
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig();
    const resources = Array.from({ length: RULES }, (_, index) =>
      resource(`r${index}`, {
        priority: index,
        condition: `request.getHeader("X-Engine-Source") == "s${index}"`,
        routeTo: { routingGroup: 'etl' },
      }),
    );
    await writeFile(join(rig.manifests, 'rules.yaml'), resources.join('---\n'));
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test.each([
    ['a table', 1280],
    ['cards', 420],
  ])('has the rows in sight only, as %s, and finds all of them', async (_form, width) => {
    await using window = await openWindow(`${rig.pages}/routing-rules`, { width });
    const { page } = window;
    await page.getByText(`${RULES} rules`).waitFor();
    const table = page.getByRole('table', { name: 'Routing rules' });
    const row = (name: string) => page.getByRole('row').filter({ has: page.getByText(name, { exact: true }) });
    await row('r0').waitFor();
    expect(await table.getAttribute('aria-rowcount')).toBe(String(RULES + 1));
    expect(await page.getByRole('row').count()).toBeLessThan(100);
    await expectSound(window);
    // The height of what comes into sight is known only then.
    const end = async () => {
      await page.evaluate('window.scrollTo(0, document.documentElement.scrollHeight)');
      return await row(`r${RULES - 1}`).count();
    };
    await expect.poll(end).toBe(1);
    expect(await row(`r${RULES - 1}`).getAttribute('aria-rowindex')).toBe(String(RULES + 1));
    expect(await row('r0').count()).toBe(0);
    await expectSound(window);
    await page.getByLabel('Search rules').fill('"s1234"');
    await row('r1234').waitFor();
    await expect.poll(() => page.getByRole('row').count()).toBe(2);
    await page.getByRole('button', { name: 'Edit r1234' }).click();
    await page.getByRole('dialog').getByLabel('Condition').waitFor();
    expect(window.defects).toEqual([]);
  });
});
