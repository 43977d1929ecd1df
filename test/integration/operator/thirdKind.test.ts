import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import { describe, expect, test, vi } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { checkManifests } from '../../../src/cli/manifestCheck.ts';
import { resourceKinds } from '../../../src/kinds/registry.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { productNames } from '../../../src/model/names.ts';
import { exportManifests } from '../../../src/operator/exportManifests.ts';
import { DatabaseSource } from '../../../src/operator/sources/database/databaseSource.ts';
import { openStore } from '../../../src/store/openStore.ts';
import { banner, kindsWithBanner as kinds } from '../../support/madeUpKind.ts';
import { startOperator } from '../../support/operatorRig.ts';

const logger = pino({ enabled: false });
const until = (check: () => void | Promise<void>): Promise<void> =>
  vi.waitFor(check, { timeout: 30_000, interval: 20 });
const manifest = (name: string, spec: object, kind: string = banner.kind): string =>
  `---\n${JSON.stringify({ apiVersion: 'enginegateway.dev/v1', kind, metadata: { name }, spec })}\n`;
const key = (name: string) => ({ kind: banner.kind, namespace: 'default', name });

describe('of a kind that is registered and named nowhere else', () => {
  test('specs are validated as what they are', () => {
    expect(kinds.specProblems(banner.kind, { condition: 'true' }).map(({ field }) => field)).toEqual([
      'spec.text',
      'spec.condition',
    ]);
    const text = manifest('a', { text: '' }) + manifest('b', { text: 'shout' }) + manifest('c', {}, 'Flag');
    const check = checkManifests('x.yaml', text, { names: productNames('Engine'), analyzeRequest: true }, kinds);
    expect(check.problems.map(({ document, message }) => [document, message])).toEqual([
      [1, 'spec.text must not be empty'],
      [3, `kind must be ${resourceKinds.names.join(' or ')} or Banner, not Flag`],
    ]);
    expect(check.warnings).toMatchObject([{ rule: 'b', message: 'spec.text: too loud' }]);
  });

  test('export has it', () => {
    const row = { name: 'One', routingGroup: 'g', proxyTo: 'http://a', externalUrl: 'http://a', active: true };
    const documents = parseAllDocuments(exportManifests({ clusters: [row], rules: [], namespace: 'n' }, kinds).yaml);
    expect(documents.map((document) => document.toJS())).toMatchObject([
      { kind: 'EngineCluster' },
      { kind: 'Banner', metadata: { namespace: 'n' }, spec: { name: 'One', text: 'about One' } },
    ]);
  });
});

test('a gateway that does not know a kind leaves what a later version stored of it', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'eg-kinds-'));
  const store = await openStore({ jdbcUrl: `jdbc:sqlite:${join(directory, 'x.db')}`, runMigrations: true, logger });
  const later = await startOperator(
    store,
    new DatabaseSource({ namespace: 'default', clock: systemClock, logger, kinds, store }),
    {
      controller: { kinds },
    },
  );
  await later.source.create({ ...key('a'), spec: { text: 'hello' } });
  await later.stop();
  const present = await startOperator(
    store,
    new DatabaseSource({ kinds: resourceKinds, namespace: 'default', clock: systemClock, logger, store }),
  );
  await until(() => expect(present.leadership.isLeader).toBe(true));
  await present.registry.add(
    { name: 'c', proxyTo: 'http://c:1', externalUrl: 'http://c:1', routingGroup: 'g', active: true },
    { by: 'api', force: false },
  );
  await until(async () => expect((await store.backends.all()).map(({ name }) => name)).toEqual(['c']));
  expect((await store.resources.all([banner.kind])).map(({ name }) => name)).toEqual(['a']);
  await present.stop();
  await store.close();
  await rm(directory, { recursive: true, force: true });
});
