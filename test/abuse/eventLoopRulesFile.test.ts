import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { stringify } from 'yaml';
import { manifest } from '../support/manifest.ts';
import { attack, send, sendJson } from './attack.ts';
import { startTarget, type Target } from './target.ts';

const RULES = 5_000;

const headerIs = (source: string) => `request.getHeader("X-Engine-Source") == "${source}"`;
const puts = (group: string) => [`result.put("routingGroup", "${group}")`];

function documents(of: (index: number) => object): string {
  return Array.from({ length: RULES }, (_, index) => stringify(of(index))).join('---\n');
}

/** A rules file whose rules send the sources `s0`, `s1` … to a group, where what ends their conditions compiles. */
const rulesFile = (group: string, end = '') =>
  documents((index) => ({
    name: `r${index}`,
    description: `Rule number ${index} of many`,
    priority: index,
    condition: `${headerIs(`s${index}`)} && request.getHeader("X-Engine-User") != "u${index}"${end}`,
    actions: puts(group),
  }));

/** Manifests of rules that do not compile. */
const brokenRules = () =>
  documents((index) =>
    manifest('RoutingRule', `b${index}`, {
      condition: `${headerIs(`s${index}`)} && missing${index}.`,
      actions: puts('adhoc'),
      priority: index,
    }),
  );

interface Listing {
  readonly file: { readonly state: string } | null;
  readonly rules: readonly { readonly status: string; readonly problems: readonly unknown[] }[];
}

async function listing(target: Target): Promise<Listing> {
  const { status, text } = await send(target, '/api/rules');
  expect(status, text.slice(0, 300)).toBe(200);
  return JSON.parse(text) as Listing;
}

async function groupOf(target: Target, source: string): Promise<string> {
  const { text } = await sendJson(target, 'POST', '/api/explain', { headers: { 'X-Engine-Source': source } });
  return (JSON.parse(text) as { routingGroup: string }).routingGroup;
}

const soon = { timeout: 60_000, interval: 200 };

describe(`a rules file of ${RULES} rules`, () => {
  let target: Target;
  let folder: string;
  const write = async (text: string) => {
    await writeFile(join(folder, 'new'), text);
    await rename(join(folder, 'new'), join(folder, 'rules.yml'));
  };
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'abuse-rules-'));
    await write(rulesFile('first'));
    target = await startTarget({ routingRules: { rulesConfigPath: join(folder, 'rules.yml') } });
  });
  afterAll(async () => {
    await target?.close();
    await rm(folder, { recursive: true, force: true });
  });

  test('is listed', async () => {
    const { answer } = await attack(target, 'rules of a file', () => listing(target));
    expect(answer.rules).toHaveLength(RULES);
    expect((await send(target, '/webapp/getRoutingRules')).status).toBe(200);
    await attack(target, 'rules of a file, for the web application', () => send(target, '/webapp/getRoutingRules'));
  });

  test('is exchanged for one whose rules are all others', async () => {
    await attack(target, 'a new rules file', async (attempt) => {
      await write(rulesFile(`second${attempt}`));
      await vi.waitFor(async () => expect(await groupOf(target, 's4999')).toBe(`second${attempt}`), soon);
    });
  });

  test('is changed by REST', async () => {
    const change = (attempt: number) => ({ condition: headerIs('changed'), actions: puts(`third${attempt}`) });
    const { answer } = await attack(target, 'a rule of a file is changed', (attempt) =>
      sendJson(target, 'PUT', '/api/rules/r77', change(attempt)),
    );
    expect(answer.status, answer.text.slice(0, 300)).toBe(200);
    expect(await groupOf(target, 'changed')).toMatch(/^third\d$/);
  });

  test('is exchanged for one whose rules do not compile, and listed', async () => {
    await attack(target, 'a broken rules file', async (attempt) => {
      await write(rulesFile(`fourth${attempt}`, ' &&'));
      await vi.waitFor(async () => expect((await listing(target)).file?.state).toBe('failed'), soon);
    });
    const { answer } = await attack(target, 'rules of a broken file', () => listing(target));
    expect(answer.rules.filter(({ problems }) => problems.length > 0)).toHaveLength(RULES);
  });
});

describe(`${RULES} resources whose rules do not compile`, () => {
  let target: Target;
  beforeAll(async () => {
    target = await startTarget({}, { prepare: (folder) => writeFile(join(folder, 'rules.yaml'), brokenRules()) });
    const waiting = () => target.metric('reconcile_queue_depth');
    await vi.waitFor(async () => expect(await waiting()).toBe(0), { timeout: 100_000, interval: 500 });
  });
  afterAll(() => target?.close());

  test('are listed again and again', async () => {
    const { answer } = await attack(target, 'rules that do not compile', () => listing(target));
    expect(answer.rules.filter(({ problems }) => problems.length > 0)).toHaveLength(RULES);
    await attack(target, 'rules that do not compile, again', () => listing(target));
  });
});
