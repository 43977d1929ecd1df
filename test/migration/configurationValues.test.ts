import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { findJava } from '../engine/distribution.ts';
import { requireComponent } from '../support/components.ts';
import { installReference, missingReferenceTools, RELEASE } from './referenceGateway.ts';

const missing = await missingReferenceTools();
const canRun = requireComponent(missing.join(', '), missing.length === 0, 'the suite runs the released Trino Gateway');

interface Row {
  readonly of: string;
  readonly file: string;
}

const rowsOf = (name: string): readonly Row[] =>
  parse(readFileSync(new URL(`../fixtures/config/${name}.yaml`, import.meta.url), 'utf8'));
const rows = [...rowsOf('referenceValues'), ...rowsOf('referenceRefusals')];

/** A file as the release has it: without the line that only this gateway reads, and with something for its placeholders. */
const asThere = (file: string): string =>
  file.replace(/^authentication: none\n/, '').replaceAll(/\$\{ENV:\w+\}/g, '/keys/key.pem');

describe.skipIf(!canRun)(`values that release ${RELEASE} starts with`, () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'configuration-values-'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('each of those that are warned of or refused here is read there', async () => {
    const files = rows.map(({ file }, index) => {
      const path = join(folder, `${index}.yaml`);
      writeFileSync(path, asThere(file));
      return path;
    });
    const program = join(import.meta.dirname, 'BindConfigurations.java');
    const args = ['-cp', await installReference(RELEASE), program, ...files];
    const { stdout } = await promisify(execFile)((await findJava()) ?? 'java', args, { timeout: 120_000 });
    const outcomes = stdout.trim().split('\n');
    expect(rows.map(({ of }, index) => [of, outcomes[index]])).toEqual(rows.map(({ of }) => [of, 'binds']));
  });
});
