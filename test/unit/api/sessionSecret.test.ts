import { KubeConfig } from '@kubernetes/client-node';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { openAuthentication } from '../../../src/api/auth/openAuthentication.ts';
import { systemClock } from '../../../src/model/clock.ts';
import { productNames } from '../../../src/model/names.ts';
import { accessSettings } from '../../support/access.ts';

/** Sessions of a replica where Kubernetes alone recognises callers. */
async function sessionsOf(yaml: string) {
  const authentication = await openAuthentication(accessSettings(yaml), {
    names: productNames('Engine'),
    trustPeer: () => false,
    environment: {},
    kubernetes: async () => {
      const kubeConfig = new KubeConfig();
      kubeConfig.loadFromClusterAndUser(
        { name: 'c', server: 'http://127.0.0.1:9', skipTLSVerify: false },
        { name: 'u' },
      );
      return { kubeConfig, namespace: 'default' };
    },
    revocations: null,
    clock: systemClock,
    logger: pino({ level: 'silent' }),
    metrics: new Registry(),
  });
  return authentication.parts.sessions;
}

const secret = 'a secret of thirty-two characters';
const user = { kind: 'kubernetes', token: 'sealed' } as const;

test.each([
  ['with the same secret every replica knows', `session: {secret: ${secret}}`, `session: {secret: ${secret}}`, true],
  ['with another secret no replica knows', `session: {secret: ${secret}}`, `session: {secret: ${secret}!}`, false],
  ['without one only their process knows', '', '', false],
])('sessions of Kubernetes users %s', async (_why, one, other, known) => {
  const configuration = (session: string) => `authentication:\n  kubernetes: {}\n  ${session}\n`;
  const first = await sessionsOf(configuration(one));
  const second = await sessionsOf(configuration(other));
  const { token } = await first.start('ann', user);
  expect(await first.read(token)).toMatchObject({ session: { user: 'ann', origin: user } });
  if (known) expect(await second.read(token)).toMatchObject({ session: { user: 'ann' } });
  else expect(await second.read(token)).toBeNull();
});

test('a short secret stops the start', () => {
  expect(() => accessSettings('authentication: {kubernetes: {}, session: {secret: short}}')).toThrow(
    'authentication.session.secret',
  );
});
