import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { type ControlPlane, controlPlaneAvailable, sharedControlPlane } from '../support/controlPlane.ts';
import { applyObject } from '../support/kubeRequests.ts';
import { manifest } from '../support/manifest.ts';

interface Mistake {
  readonly mistake: string;
  readonly kind: string;
  readonly spec: object;
}

describe.skipIf(!controlPlaneAvailable)('typical mistakes', () => {
  let plane: ControlPlane;
  beforeAll(async () => {
    plane = await sharedControlPlane();
  });
  afterAll(() => plane?.stop());

  test('are rejected by the API server with a sentence', async () => {
    const mistakes = parse(readFileSync('test/fixtures/mistakes.yaml', 'utf8')) as readonly Mistake[];
    const texts: string[] = [];
    for (const { mistake, kind, spec } of mistakes) {
      const document = manifest(kind, 'mistake', spec, { namespace: 'default' });
      const settings = { manager: 'kubectl', isDryRun: true };
      const message = await applyObject(plane.config, 'default', document, settings).then(() => 'accepted', String);
      texts.push(`${kind}: ${mistake}\n  ${message}\n`);
    }
    await expect(texts.join('\n')).toMatchFileSnapshot('golden/mistakes.txt');
  });
});
