import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { parseConfig } from '../../../src/config/loadConfig.ts';

const environment = {
  POD_NAMESPACE: 'engine-gateway',
  DATABASE_URL: 'jdbc:postgresql://db/gateway',
  DATABASE_USER: 'gateway',
  DATABASE_PASSWORD: 'secret',
  SESSION_SECRET: 'thirty-two characters or a few more',
  DEMO_HOST: '127.0.0.1',
  DEMO_PORT: '8080',
};

const shipped = [
  'demo/gateway.yaml',
  'manifests/base/gateway.yaml',
  'manifests/image/gateway.yaml',
  'manifests/overlays/all-namespaces/gateway.yaml',
  'manifests/overlays/separate-origins/gateway.yaml',
];

test.each(shipped)('%s can be used as it is, and says who may call', (path) =>
  expect(parseConfig(readFileSync(path, 'utf8'), environment)).toMatchObject({
    notes: [],
    config: { authentication: {} },
  }),
);
