import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { helmAvailable } from '../support/helm.ts';

const run = promisify(execFile);

describe.skipIf(!helmAvailable)('npm run release', () => {
  let output: string;
  const read = (name: string): Promise<string> => readFile(join(output, name), 'utf8');
  const json = async <T>(name: string): Promise<T> => JSON.parse(await read(name)) as T;

  beforeAll(async () => {
    output = await mkdtemp(join(tmpdir(), 'release-'));
    await run('node', ['scripts/release.ts', '--allow-dirty', '--builder', 'https://ci.example/1', '--output', output]);
  }, 180_000);
  afterAll(() => rm(output, { recursive: true, force: true }));

  test('makes files whose checksums and provenance agree', async () => {
    const { stdout } = await run('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: output });
    const files = stdout.trim().split('\n');
    expect(files).toEqual(
      [
        ...['charts/engine-gateway-0.1.0.tgz', 'charts/engine-gateway-crds-0.1.0.tgz', 'crds.yaml'],
        ...['engine-gateway-0.1.0.tgz', 'engine-gateway.cdx.json', 'provenance.intoto.json'],
      ].map((name) => `${name}: OK`),
    );
    const sums = (await read('SHA256SUMS')).trim().split('\n');
    const statement = await json<{
      readonly subject: readonly { readonly name: string; readonly digest: { readonly sha256: string } }[];
      readonly predicate: {
        readonly buildDefinition: { readonly resolvedDependencies: readonly { readonly digest: object }[] };
        readonly runDetails: { readonly builder: object };
      };
    }>('provenance.intoto.json');
    const subjects = statement.subject.map(({ name, digest }) => `${digest.sha256}  ${name}`);
    expect(subjects).toEqual(sums.filter((line) => !line.endsWith('  provenance.intoto.json')));
    const { buildDefinition, runDetails } = statement.predicate;
    const revision = (await run('git', ['rev-parse', 'HEAD'])).stdout.trim();
    expect(buildDefinition.resolvedDependencies[0]?.digest).toEqual({ gitCommit: revision });
    expect(runDetails.builder).toEqual({ id: 'https://ci.example/1' });
  });

  test('has a bill of materials of what ships, and of nothing else', async () => {
    const { components, dependencies, metadata } = await json<{
      readonly metadata: { readonly component: { readonly name: string; readonly version: string } };
      readonly components: readonly {
        readonly name: string;
        readonly purl: string;
        readonly hashes: readonly object[];
        readonly licenses: readonly object[];
      }[];
      readonly dependencies: readonly { readonly ref: string; readonly dependsOn: readonly string[] }[];
    }>('engine-gateway.cdx.json');
    expect(metadata.component).toMatchObject({ name: 'engine-gateway', version: '0.1.0' });
    const names = components.map(({ name }) => name);
    // In the image's node_modules, bundled into the server, and bundled into the pages.
    expect(names).toEqual(
      expect.arrayContaining(['pg', 'bcrypt', 'tarn', 'fastify', 'undici', 'react', '@mantine/core']),
    );
    for (const name of ['vitest', 'typescript', 'playwright-core', '@types/node', 'oidc-provider', 'vite']) {
      expect(names).not.toContain(name);
    }
    for (const { purl, hashes, licenses } of components) {
      expect(purl).toMatch(/^pkg:npm\//);
      expect([purl, hashes.length > 0, licenses.length > 0]).toEqual([purl, true, true]);
    }
    const refs = new Set(dependencies.map(({ ref }) => ref));
    for (const ref of dependencies.flatMap(({ dependsOn }) => dependsOn)) expect(refs).toContain(ref);
  });

  test('has the CRDs as one file, and a package that holds the program but not its sources', async () => {
    const crds = parseAllDocuments(await read('crds.yaml')).map((document) => document.toJS() as { kind: string });
    expect(crds.length).toBeGreaterThanOrEqual(2);
    expect(new Set(crds.map(({ kind }) => kind))).toEqual(new Set(['CustomResourceDefinition']));
    const chart = await run('tar', ['-tzf', join(output, 'charts/engine-gateway-crds-0.1.0.tgz')]);
    const inChart = chart.stdout.split('\n').filter((file) => file.includes('/files/'));
    expect(inChart.sort()).toEqual((await readdir('crds')).sort().map((file) => `engine-gateway-crds/files/${file}`));
    const { stdout } = await run('tar', ['-tzf', join(output, 'engine-gateway-0.1.0.tgz')]);
    const files = stdout.split('\n');
    const bins = ['bin/engine-gateway.js', 'bin/kubectl-engine_gateway.js'];
    for (const file of ['dist/server/main.js', ...bins, 'dist/ui/index.html', 'docs/install.md']) {
      expect(files).toContain(`package/${file}`);
    }
    expect(files.filter((file) => /^package\/(src|test|scripts|node_modules)\//.test(file))).toEqual([]);
  });

  test('is refused from a working tree with changes', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'dirty-'));
    try {
      await run('git', ['clone', '--quiet', '--no-hardlinks', '.', folder]);
      await run('ln', ['-s', resolve('node_modules'), join(folder, 'node_modules')]);
      const refused = run('node', [join(folder, 'scripts/release.ts'), '--output', join(folder, 'out')]);
      await expect(refused).rejects.toMatchObject({ code: 1, stderr: expect.stringContaining('commit them') });
      expect(existsSync(join(folder, 'out'))).toBe(false);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});
