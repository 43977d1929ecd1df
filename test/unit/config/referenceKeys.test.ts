import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parseConfig } from '../../../src/config/loadConfig.ts';

const keys = readFileSync(new URL('../../fixtures/reference/serverConfigKeys.txt', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'));
const clients = ['proxy', 'monitor', 'router', 'discovery'];
const all = keys.flatMap((key) =>
  key.startsWith('http-client.') ? clients.map((client) => `${client}.${key}`) : [key],
);
/** One of them suits each key. */
const values = ['true', '1', '10s', '16MB', 'file.pem', 'http://host:1'];
const open = 'authentication: none\n';

describe('every key of serverConfig that Trino Gateway binds starts', () => {
  test.each(all)('%s', (key) => {
    const results = values.map((value) => parseConfig(`${open}serverConfig: {${key}: "${value}"}\n`, {}));
    // HTTPS alone needs a key store beside it.
    const extra = key === 'http-server.https.enabled' ? ', http-server.https.keystore.path: a.pem' : '';
    const completed = values.map((value) => parseConfig(`${open}serverConfig: {${key}: "${value}"${extra}}\n`, {}));
    expect([...results, ...completed].some((result) => 'config' in result)).toBe(true);
  });
});

const reported = (text: string): readonly string[] => {
  const result = parseConfig(`${open}${text}`, {});
  if ('problems' in result) throw new Error(JSON.stringify(result.problems));
  return result.notes.map(({ field }) => field);
};

describe('what means something here is mapped, the rest noted', () => {
  test.each([
    ['otel.tracing.sampling-ratio', '0.5', 'tracing.sampling-ratio', 0.5],
    ['tracing.sampling-ratio', '0.5', 'tracing.sampling-ratio', 0.5],
    ['tracing.exporter.endpoint', 'http://o:4318', 'otel.exporter.endpoint', 'http://o:4318'],
    ['proxy.http-client.read-timeout', '7s', 'proxy.http-client.idle-timeout', 7000],
    ['router.http-client.max-content-length', '1kB', 'router.http-client.max-response-content-length', 1024],
  ] as const)('%s', (key, value, own, expected) => {
    const text = `serverConfig: {${key}: "${value}"}`;
    const result = parseConfig(`${open}${text}`, {});
    expect('config' in result && result.config.serverConfig[own]).toBe(expected);
    expect(reported(text)).toEqual([]);
  });

  test.each([
    'otel.exporter.protocol',
    'proxy.http-client.http-proxy.user',
    'http-server.output-buffer-size',
    'http-server.https.keystore.type',
    'discovery.http-client.request-timeout',
  ])('%s is accepted without effect', (key) => {
    expect(reported(`serverConfig: {${key}: x}`)).toEqual([`serverConfig.${key}`]);
  });

  test.each([
    [
      'uiConfiguration: {disablePages: [dashbord]}',
      'there is no page "dashbord"; there are dashboard, cluster, resource-group, selector, history, workload, replays, routing-rules, limits, queue, audit; did you mean dashboard?',
    ],
    ['uiConfiguration: {disablePages: [admin]}', 'there is no page "admin"'],
  ])('a value that means nothing in either gateway is noted: %s', (text, message) => {
    const result = parseConfig(`${open}${text}`, {});
    if ('problems' in result) throw new Error(JSON.stringify(result.problems));
    expect(result.notes.map((note) => note.message)).toEqual([expect.stringContaining(message)]);
  });

  test('a login type without its section leaves what there is', () => {
    const form = 'form: {selfSignKeyPair: {privateKey: a.pem, publicKey: b.pem}}';
    const result = parseConfig(`authentication: {defaultType: oauth, ${form}}`, {});
    if ('problems' in result) throw new Error(JSON.stringify(result.problems));
    expect(result.notes).toEqual([
      expect.objectContaining({
        field: 'authentication.defaultType',
        message: expect.stringContaining('there is no authentication.oauth, so users log in by what there is'),
      }),
    ]);
  });

  test('a path of metrics without a slash, and URLs of PostgreSQL without a host or database', () => {
    for (const url of [
      'jdbc:postgresql:gateway',
      'jdbc:postgresql://db',
      'jdbc:postgresql://db:5432/?sslmode=disable',
    ]) {
      const text = `monitor: {metricsEndpoint: metrics}\ndataStore: {jdbcUrl: "${url}"}`;
      const result = parseConfig(`${open}${text}`, {});
      expect('config' in result && result.config.monitor.metricsEndpoint, url).toBe('/metrics');
    }
  });

  test('names of release 21 beside the older ones', () => {
    const text = [
      'authentication: {form: {selfSignKeyPair: {privateKey: a.pem, publicKey: b.pem}}}',
      'backendState: {username: u, xforwardedProtoHeader: true}',
    ].join('\n');
    const result = parseConfig(text, {});
    if ('problems' in result) throw new Error(JSON.stringify(result.problems));
    expect(result.config.authentication?.form?.selfSignKeyPair).toEqual({
      privateKeyRsa: 'a.pem',
      publicKeyRsa: 'b.pem',
    });
    expect(result.config.backendState?.xForwardedProtoHeader).toBe(true);
  });

  test('client certificates as release 21 has them', () => {
    const text = [
      'requestAnalyzerConfig:',
      '  clientCertificateIdentityField: SUBJECT_DN',
      '  clientCertificateUserMappingPattern: (.*)@example.com',
      'clientCertificateJwtAuthentication:',
      '  jwtPrincipalClaim: preferred_username',
      '  jwtIssuer: trino-gateway-tests',
      '  jwtAudiences: [trino, backend]',
      '  jwtKeyId: test-key',
      '  jwtSigningKeyPair: {privateKey: private.pem, publicKey: public.pem}',
      '  clientCertificateRequired: true',
      '  overrideTrinoUser: true',
      'serverConfig:',
      '  http-server.https.enabled: true',
      '  http-server.https.keystore.path: gateway.pem',
      '  http-server.https.truststore.path: clients.pem',
    ].join('\n');
    const result = parseConfig(`${open}${text}`, {});
    if ('problems' in result) throw new Error(JSON.stringify(result.problems));
    expect(result.config.clientCertificateJwtAuthentication).toMatchObject({
      jwtPrincipalClaim: 'preferred_username',
      jwtIssuer: 'trino-gateway-tests',
      jwtAudiences: ['trino', 'backend'],
      jwtKeyId: 'test-key',
      jwtSigningKeyPair: { privateKey: 'private.pem', publicKey: 'public.pem' },
      clientCertificateRequired: true,
      overrideTrinoUser: true,
    });
  });
});
