import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { parseConfig } from '../../../src/config/loadConfig.ts';
import { mountSecrets } from '../../support/mountedSecrets.ts';

const environment = {
  POD_NAMESPACE: 'engine-gateway',
  DATABASE_URL: 'jdbc:postgresql://db/gateway',
  DEMO_HOST: '127.0.0.1',
  DEMO_PORT: '8080',
  DEMO_DATA: 'demo/data/8080',
};

const folder = mkdtempSync(join(tmpdir(), 'shipped-'));
afterAll(() => rmSync(folder, { recursive: true }));

const shipped = [
  'demo/gateway.yaml',
  'manifests/base/gateway.yaml',
  'manifests/image/gateway.yaml',
  'manifests/overlays/all-namespaces/gateway.yaml',
  'manifests/overlays/separate-origins/gateway.yaml',
];

test.each(shipped)('%s can be used as it is, and says who may call', (path) =>
  expect(parseConfig(mountSecrets(folder)(readFileSync(path, 'utf8')), environment)).toMatchObject({
    notes: [],
    config: { authentication: {} },
  }),
);
