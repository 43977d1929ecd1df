import { describe, expect, test } from 'vitest';
import {
  type CredentialSources,
  type CredentialsTarget,
  findCredentials,
} from '../../../../src/gateway/health/checkCredentials.ts';

const password = 'configured-s3cret';
const never = new AbortController().signal;

const sources = (
  more: Partial<CredentialSources> & { readonly allowedHosts?: readonly string[]; readonly password?: string } = {},
): CredentialSources => ({
  configured: { username: 'monitor', password: more.password ?? password, allowedHosts: more.allowedHosts ?? null },
  trustsResources: false,
  ofCluster: async () => null,
  report: () => undefined,
  ...more,
});

const target = (more: Partial<CredentialsTarget> = {}): CredentialsTarget => ({
  name: 'a',
  origin: 'resource',
  tls: null,
  proxyTo: 'https://trino-a.example:8443',
  healthCheck: null,
  type: 'METRICS',
  configuredType: 'METRICS',
  ...more,
});

const http = 'http://trino-a.example:8080';
const unverified = { insecureSkipVerify: true };

describe('where backendState is sent', () => {
  test.each<[string, Parameters<typeof sources>[0], Partial<CredentialsTarget>, string]>([
    // A directory, the database, rows of a gateway before: those who run the gateway wrote them.
    ["an administrator's cluster over HTTP", { trustsResources: true }, { proxyTo: http }, 'sent'],
    [
      'a type of its own there',
      { trustsResources: true },
      { proxyTo: http, type: 'UI_API', configuredType: 'INFO_API' },
      'sent',
    ],
    ['an unmanaged row', {}, { proxyTo: http, origin: 'row' }, 'sent'],
    [
      "an administrator's cluster that is not listed",
      { trustsResources: true, allowedHosts: ['other'] },
      { proxyTo: http },
      'HostNotAllowed',
    ],
    // Resources on an API server.
    ['the configured type over TLS', {}, {}, 'sent'],
    ['the configured type over HTTP', {}, { proxyTo: http }, 'PlainHTTP'],
    ['UI_API over HTTP', {}, { proxyTo: http, type: 'UI_API', configuredType: 'UI_API' }, 'PlainHTTP'],
    // These send the name alone over HTTP.
    ['JDBC over HTTP', {}, { proxyTo: http, type: 'JDBC', configuredType: 'JDBC' }, 'sent'],
    ['JMX over HTTP', {}, { proxyTo: http, type: 'JMX', configuredType: 'JMX' }, 'sent'],
    ['TLS without verification', {}, { tls: unverified }, 'CertificateNotVerified'],
    ['authorities of the cluster', {}, { tls: { caBundle: 'x' } }, 'sent'],
    ['a type of its own', {}, { type: 'METRICS', configuredType: 'INFO_API' }, 'TypeNotConfigured'],
    ['another type that asks as a user', {}, { type: 'UI_API', configuredType: 'METRICS' }, 'TypeNotConfigured'],
    ['JDBC of its own over HTTP', {}, { proxyTo: http, type: 'JDBC', configuredType: 'INFO_API' }, 'TypeNotConfigured'],
    [
      'a name without password',
      { password: '' },
      { proxyTo: http, type: 'METRICS', configuredType: 'INFO_API' },
      'sent',
    ],
    // Listed hosts, and those alone.
    ['a listed host over HTTP', { allowedHosts: ['*.example'] }, { proxyTo: http }, 'sent'],
    [
      'a type of its own at a listed host',
      { allowedHosts: ['trino-a.example'] },
      { proxyTo: http, configuredType: 'INFO_API' },
      'sent',
    ],
    ['another host over TLS', { allowedHosts: ['trino-b.example'] }, {}, 'HostNotAllowed'],
    ['another port', { allowedHosts: ['trino-a.example:443'] }, {}, 'HostNotAllowed'],
    ['no host at all', { allowedHosts: [] }, {}, 'HostNotAllowed'],
  ])('%s: %#', async (_what, from, to, expected) => {
    const found = await findCredentials(sources(from), target(to), never);
    if (expected === 'sent') {
      expect(found).toMatchObject({ ok: true, credentials: { username: 'monitor', from: 'backendState' } });
      return;
    }
    expect(found).toMatchObject({ ok: false, lasting: true, refusal: { reason: expected } });
    const { reason } = found as { readonly reason: string };
    expect(reason).toContain('backendState.allowedHosts');
    expect(reason).toContain('spec.healthCheck.credentialsSecretRef');
    expect(reason).not.toContain(password);
  });

  test('a Secret that a cluster names goes where it may, whatever backendState may', async () => {
    const healthCheck = { credentialsSecretRef: { name: 's' } };
    const own = { ok: true as const, username: 'u', password: 'p' };
    const asked: string[] = [];
    const ofCluster = async (cluster: string, proxyTo: string) => {
      asked.push(`${cluster} ${proxyTo}`);
      return own;
    };
    const found = await findCredentials(
      sources({ ofCluster, allowedHosts: [] }),
      target({ proxyTo: http, healthCheck }),
      never,
    );
    expect(found).toMatchObject({ ok: true, credentials: { username: 'u', password: 'p' } });
    expect(asked).toEqual([`a ${http}`]);
    const refusal = { reason: 'HostNotAllowed', message: 'the Secret may not be sent there' };
    const refusing = sources({ trustsResources: true, ofCluster: async () => ({ ok: false, ...refusal }) });
    expect(await findCredentials(refusing, target({ healthCheck }), never)).toEqual({
      ok: false,
      lasting: false,
      reason: refusal.message,
      refusal,
    });
  });
});
