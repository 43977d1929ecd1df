import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { configFields } from '../../src/config/gatewayConfig.ts';
import { parseConfig } from '../../src/config/loadConfig.ts';
import { requireComponent } from '../support/components.ts';
import { type ControlPlane, chartControlPlane, controlPlaneAvailable, kubectlPath } from '../support/controlPlane.ts';
import { helm, helmAvailable, type Rendered, renderedConfig, renderedObjects } from '../support/helm.ts';
import { anySpec } from '../support/kubeRig.ts';
import { baseSecrets, mountSecrets } from '../support/mountedSecrets.ts';
import { type AlertRules, shippedAlerts } from '../support/prometheus.ts';

type FieldSchema = typeof configFields;

const run = promisify(execFile);
const httpRouteCrd = '.cache/gateway-api/gateway.networking.k8s.io_httproutes.yaml';
const gatewayApiAvailable = requireComponent(
  'CRDs of the Gateway API',
  existsSync(httpRouteCrd),
  'copy config/crd/standard of the Go module sigs.k8s.io/gateway-api to .cache/gateway-api, as .ci/run does',
);

const environment = { POD_NAMESPACE: 'eg' };
const secrets = {
  ...baseSecrets,
  'session/old': '',
  'oidc/clientSecret': 'client secret',
  'providers/0/clientSecret': 'client secret of the partners',
};

interface PodSpec {
  readonly containers: readonly {
    readonly image: string;
    readonly env: readonly { readonly name: string }[];
    readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
    readonly startupProbe?: Probe;
    readonly livenessProbe: Probe;
    readonly readinessProbe: Probe;
    readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  }[];
  readonly volumes: readonly {
    readonly name: string;
    readonly secret?: { readonly secretName: string };
    readonly configMap?: { readonly name: string };
  }[];
}
interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string; readonly scheme: string };
  readonly periodSeconds: number;
}

describe.skipIf(!controlPlaneAvailable || !helmAvailable || !gatewayApiAvailable)('the Helm chart', () => {
  let plane: ControlPlane;
  let folder: string;
  const kubectl = async (args: readonly string[], input?: string): Promise<string> => {
    const child = run(kubectlPath, ['--kubeconfig', plane.config.kubeconfigPath, ...args]);
    if (input !== undefined) child.child.stdin?.end(input);
    return (await child).stdout;
  };
  /** Renders the chart with values, as a file of values does. */
  const render = async (values: object): Promise<string> => {
    const file = join(folder, 'values.yaml');
    // Helm reads YAML 1.1.
    await writeFile(file, stringify(values, { version: '1.1' }));
    const chart = ['gw', 'manifests/helm/engine-gateway', '-n', 'eg'];
    return helm('template', ...chart, '-f', file, '--kube-version', '1.34.0');
  };
  const accept = async (rendered: string): Promise<void> => {
    const applied = await kubectl(
      ['apply', '--server-side', '--dry-run=server', '--validate=strict', '-f', '-'],
      rendered,
    );
    expect(applied.trim().split('\n')).toHaveLength(renderedObjects(rendered).length);
  };
  const objectOf = (rendered: string, kind: string, name = 'gw-engine-gateway'): Rendered => {
    const object = renderedObjects(rendered).find((each) => each.kind === kind && each.metadata.name === name);
    if (object === undefined) throw new Error(`no ${kind} ${name} is rendered`);
    return object;
  };
  const podOf = (rendered: string): PodSpec => {
    const { template } = objectOf(rendered, 'Deployment').spec as { readonly template: { readonly spec: PodSpec } };
    return template.spec;
  };
  const portsOf = (rendered: string, service: string) =>
    (objectOf(rendered, 'Service', service).spec?.ports ?? []) as readonly object[];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'eg-chart-'));
    plane = await chartControlPlane();
    const crds = [
      anySpec('monitoring.coreos.com', 'ServiceMonitor'),
      anySpec('monitoring.coreos.com', 'PrometheusRule'),
      anySpec('cert-manager.io', 'Certificate'),
    ];
    for (const crd of crds) await kubectl(['apply', '--server-side', '-f', '-'], JSON.stringify(crd));
    await kubectl(['apply', '--server-side', '-f', httpRouteCrd]);
    await kubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s']);
    await kubectl(['create', 'namespace', 'eg']);
  });
  afterAll(async () => {
    await plane?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** Values, and what the configuration file then has. Each is a valid configuration and accepted by the API server. */
  const configurations: readonly (readonly [name: string, values: object, config: object])[] = [
    [
      'HTTPS by a Secret, beside clear text',
      { tls: { enabled: true, existingSecret: 'gw-tls' } },
      {
        serverConfig: {
          'http-server.http.enabled': true,
          'http-server.https.enabled': true,
          'http-server.https.port': 8443,
          'http-server.https.keystore.path': '/etc/engine-gateway-tls',
        },
      },
    ],
    [
      'HTTPS alone, by cert-manager, with certificates of clients',
      {
        http: { enabled: false },
        tls: {
          enabled: true,
          port: 9443,
          certManager: { enabled: true, issuerRef: { name: 'ca' }, dnsNames: ['gw.example'] },
          clientCa: { existingSecret: 'client-ca' },
        },
      },
      {
        serverConfig: {
          'http-server.http.enabled': false,
          'http-server.https.port': 9443,
          'http-server.https.truststore.path': '/etc/engine-gateway-client-ca/ca.crt',
        },
      },
    ],
    [
      'users of client certificates, with tokens for clusters, also recognised by the API',
      {
        tls: { enabled: true, existingSecret: 'gw-tls', clientCa: { existingSecret: 'client-ca' } },
        clientCertificates: {
          enabled: true,
          userPattern: 'CN=(.*), O=Example',
          api: true,
          tokens: {
            enabled: true,
            existingSecret: 'gw-tokens',
            publicKeyKey: 'tls.crt',
            issuer: 'https://gw.example',
            hosts: ['trino.example'],
            overrideUser: true,
            settings: { jwtLifetime: '2m' },
          },
        },
      },
      {
        serverConfig: { 'http-server.https.truststore.path': '/etc/engine-gateway-client-ca/ca.crt' },
        requestAnalyzerConfig: {
          clientCertificateIdentityField: 'SUBJECT_DN',
          clientCertificateUserMappingPattern: 'CN=(.*), O=Example',
        },
        authentication: { kubernetes: {}, clientCertificates: true },
        clientCertificateJwtAuthentication: {
          jwtSigningKeyPair: {
            privateKey: '/etc/engine-gateway-client-tokens/tls.key',
            publicKey: '/etc/engine-gateway-client-tokens/tls.crt',
          },
          jwtIssuer: 'https://gw.example',
          jwtAudiences: ['{cluster}'],
          jwtLifetime: '2m',
          tokenHosts: ['trino.example'],
          clientCertificateRequired: false,
          overrideTrinoUser: true,
        },
      },
    ],
    [
      'users of client certificates by a file, verified by a proxy',
      {
        clientCertificates: { enabled: true, identityField: 'CN', mappingFile: { existingConfigMap: 'users' } },
        config: { server: { clientCertificateHeader: 'X-Forwarded-Client-Cert' } },
      },
      {
        requestAnalyzerConfig: {
          clientCertificateIdentityField: 'CN',
          clientCertificateUserMappingFile: '/etc/engine-gateway-client-users/mapping.json',
        },
      },
    ],
    [
      'users of client certificates by an expression',
      {
        tls: { enabled: true, existingSecret: 'gw-tls', clientCa: { existingSecret: 'client-ca' } },
        clientCertificates: { enabled: true, userExpression: 'certificate.CN' },
      },
      { requestAnalyzerConfig: { clientCertificateUserExpression: 'certificate.CN' } },
    ],
    [
      'OpenID Connect in place of tokens of the cluster',
      {
        auth: {
          kubernetes: { enabled: false },
          oidc: {
            enabled: true,
            issuer: 'https://login.example',
            clientId: 'gateway',
            existingSecret: 'oidc',
            redirectUrl: 'https://gw.example/oidc/callback',
            settings: { scopes: ['openid', 'groups'], privilegesField: 'groups' },
          },
        },
        config: { authorization: { admin: 'admins' } },
      },
      {
        authentication: {
          oauth: {
            issuer: 'https://login.example',
            clientId: 'gateway',
            clientSecret: '${FILE:/etc/engine-gateway-secrets/oidc/clientSecret}',
            redirectUrl: 'https://gw.example/oidc/callback',
            scopes: ['openid', 'groups'],
            privilegesField: 'groups',
          },
          session: { secret: '${FILE:/etc/engine-gateway-secrets/session/secret}' },
        },
        authorization: { admin: 'admins' },
      },
    ],
    [
      'several ways of logging in, and tokens of another issuer',
      {
        auth: {
          form: {
            enabled: true,
            existingSecret: 'keys',
            ldap: { existingSecret: 'ldap' },
            order: ['presetUsers', 'ldap'],
          },
          providers: [
            {
              name: 'partners',
              label: 'Partners',
              issuer: 'https://login.partners.example',
              clientId: 'gateway',
              existingSecret: 'partners',
              redirectUrl: 'https://gw.example/oidc/callback/partners',
              roles: { user: '.*analysts.*' },
              settings: { privilegesField: 'groups', userPrefix: 'p:' },
            },
          ],
          tokenIssuers: {
            ci: { issuer: 'https://ci.example', audiences: ['https://gw.example'], roles: { api: '.*' } },
          },
        },
      },
      {
        authentication: {
          kubernetes: {},
          form: { order: ['presetUsers', 'ldap'] },
          providers: {
            partners: {
              label: 'Partners',
              issuer: 'https://login.partners.example',
              clientId: 'gateway',
              clientSecret: '${FILE:/etc/engine-gateway-secrets/providers/0/clientSecret}',
              redirectUrl: 'https://gw.example/oidc/callback/partners',
              roles: { user: '.*analysts.*' },
              privilegesField: 'groups',
              userPrefix: 'p:',
            },
          },
          tokenIssuers: {
            ci: { issuer: 'https://ci.example', audiences: ['https://gw.example'], roles: { api: '.*' } },
          },
        },
      },
    ],
    [
      'name and password by LDAP',
      {
        auth: {
          kubernetes: { enabled: false },
          form: { enabled: true, existingSecret: 'keys', ldap: { existingSecret: 'ldap' } },
        },
      },
      {
        authentication: {
          form: {
            ldapConfigPath: '/etc/engine-gateway-auth/ldap/ldap.yaml',
            selfSignKeyPair: {
              privateKeyRsa: '/etc/engine-gateway-auth/form/private.pem',
              publicKeyRsa: '/etc/engine-gateway-auth/form/public.pem',
            },
          },
        },
      },
    ],
    [
      'a rules file, a port of the API and the authority of the database',
      {
        rulesFile: { content: 'name: adhoc\ncondition: "true"\nactions: []\n' },
        adminPort: 8090,
        http: { port: 9080 },
        database: { jdbcUrl: 'jdbc:mysql://db.example/gateway?connectTimeout=3000', ca: { existingSecret: 'ca' } },
      },
      {
        routingRules: { rulesConfigPath: '/etc/engine-gateway-rules/rules.yaml' },
        server: { adminPort: 8090 },
        serverConfig: { 'http-server.http.port': 9080 },
        dataStore: {
          jdbcUrl:
            'jdbc:mysql://db.example/gateway?connectTimeout=3000&serverSslCert=/etc/engine-gateway-database-ca/ca.crt&sslMode=VERIFY_IDENTITY',
        },
      },
    ],
    [
      'a database whose certificate is verified, in PostgreSQL',
      { database: { jdbcUrl: 'jdbc:postgresql://db.example/gateway', ca: { existingSecret: 'ca' } } },
      {
        dataStore: {
          jdbcUrl:
            'jdbc:postgresql://db.example/gateway?sslmode=verify-full&sslrootcert=/etc/engine-gateway-database-ca/ca.crt',
        },
      },
    ],
    [
      'the admission webhook, with a certificate of the gateway',
      { webhook: { enabled: true } },
      {
        resources: {
          webhook: {
            ...{ enabled: true, port: 9443, name: 'eg-gw-engine-gateway-webhook' },
          },
        },
      },
    ],
    [
      'the admission webhook, with a certificate of cert-manager',
      { webhook: { enabled: true, port: 9999, certManager: { enabled: true, issuerRef: { name: 'ca' } } } },
      { resources: { webhook: { enabled: true, port: 9999, name: 'eg-gw-engine-gateway-webhook' } } },
    ],
    ['no authentication', { config: { authentication: 'none' } }, { authentication: 'none' }],
    [
      'a previous secret of sessions',
      { session: { existingSecret: 'sessions', previousKey: 'old' } },
      {
        authentication: {
          session: {
            secret: '${FILE:/etc/engine-gateway-secrets/session/secret}',
            previousSecrets: ['${FILE:/etc/engine-gateway-secrets/session/old}'],
          },
        },
      },
    ],
  ];

  test.each(configurations)('%s', async (_name, values, config) => {
    const rendered = await render(values);
    expect(parse(renderedConfig(rendered))).toMatchObject(config);
    const result = parseConfig(mountSecrets(folder, secrets)(renderedConfig(rendered)), environment);
    expect('problems' in result ? result.problems : []).toEqual([]);
    await accept(rendered);
    // Each file that the configuration names is mounted, from a volume that the pod has.
    const { containers, volumes } = podOf(rendered);
    const mounts = containers[0]?.volumeMounts ?? [];
    expect(mounts.map(({ name }) => name).sort()).toEqual(volumes.map(({ name }) => name).sort());
    for (const [path] of renderedConfig(rendered).matchAll(/\/etc\/engine-gateway[-a-z]*/g)) {
      expect(
        mounts.some(({ mountPath }) => mountPath === path || mountPath.startsWith(`${path}/`)),
        path,
      ).toBe(true);
    }
  });

  test.each([
    [{ enabled: true }, 'set tls.enabled and tls.clientCa.existingSecret, or config.server.clientCertificateHeader'],
    [{ tokens: { enabled: true } }, '/clientCertificates/tokens/existingSecret'],
  ])('client certificates that cannot be used are refused: %j', async (clientCertificates, message) => {
    await expect(render({ clientCertificates })).rejects.toThrow(message);
  });

  test('the admission webhook is ignored while it is unavailable, and gives the gateway rights to two named objects', async () => {
    const rendered = await render({ webhook: { enabled: true } });
    const [service, configuration] = ['gw-engine-gateway-webhook', 'eg-gw-engine-gateway-webhook'];
    const { webhooks } = objectOf(rendered, 'ValidatingWebhookConfiguration', configuration) as unknown as {
      readonly webhooks: readonly object[];
    };
    expect(webhooks).toMatchObject([
      { failurePolicy: 'Ignore', timeoutSeconds: 2, clientConfig: { service: { name: service, namespace: 'eg' } } },
    ]);
    expect(portsOf(rendered, service)).toEqual([{ name: 'webhook', port: 443, targetPort: 'webhook' }]);
    expect(podOf(rendered).containers[0]?.ports).toContainEqual({ name: 'webhook', containerPort: 9443 });
    expect(objectOf(rendered, 'Secret', configuration).data).toBeUndefined();
    const verbs = ['get', 'patch'];
    expect(objectOf(rendered, 'Role', configuration).rules).toEqual([
      { apiGroups: [''], resources: ['secrets'], resourceNames: [configuration], verbs },
    ]);
    const apiGroups = ['admissionregistration.k8s.io'];
    expect(objectOf(rendered, 'ClusterRole', configuration).rules).toEqual([
      { apiGroups, resources: ['validatingwebhookconfigurations'], resourceNames: [configuration], verbs },
    ]);
    expect(renderedObjects(await render({})).filter(({ metadata }) => metadata.name.includes('webhook'))).toEqual([]);
  });

  test('users of the configuration have their passwords in Secrets', async () => {
    const users = [{ name: 'admin', privileges: 'ADMIN_USER_API', existingSecret: 'gateway-admin' }];
    const rendered = await render({ auth: { form: { enabled: true, existingSecret: 'keys', users } } });
    expect(parse(renderedConfig(rendered))).toMatchObject({
      presetUsers: {
        admin: { password: '${FILE:/etc/engine-gateway-auth/users/0/password}', privileges: 'ADMIN_USER_API' },
      },
    });
    expect(podOf(rendered).volumes).toContainEqual({
      name: 'auth-user-0',
      secret: { secretName: 'gateway-admin' },
    });
    await accept(rendered);
  });

  test('the API server is asked about tokens where the configuration says so, and about nothing else', async () => {
    const asked = async (config: object) => {
      const rendered = await render({ config });
      const roles = renderedObjects(rendered).filter(({ kind }) => kind === 'ClusterRole');
      const [role] = roles.filter(({ metadata }) => metadata.name.endsWith('access-review'));
      return (role?.rules as readonly { readonly resources: readonly string[] }[] | undefined)?.flatMap(
        ({ resources }) => resources,
      );
    };
    const kubernetesTokens = { audiences: ['engine-gateway'] };
    const none = { authentication: 'none' };
    expect(await asked(none)).toBeUndefined();
    expect(await asked({ ...none, requestAnalyzerConfig: { kubernetesTokens } })).toEqual(['tokenreviews']);
    const both = { authentication: { kubernetes: {} }, requestAnalyzerConfig: { kubernetesTokens } };
    expect(await asked(both)).toEqual(['tokenreviews', 'subjectaccessreviews']);
  });

  test('every key of the configuration can be set, and the file is a Secret', async () => {
    const config = sampleOf(configFields, 'config') as Readonly<Record<string, object>>;
    const rendered = await render({ config });
    const text = renderedConfig(rendered);
    expect(parse(text)).toMatchObject(config);
    const keys = keysOf(config);
    expect(keys.length).toBeGreaterThan(150);
    expect(keysOf(parse(text) as object)).toEqual(expect.arrayContaining([...keys]));
    for (const { kind, data, stringData } of renderedObjects(rendered)) {
      if ((data ?? stringData)?.['gateway.yaml'] !== undefined) expect(kind).toBe('Secret');
    }
  });

  test('a word that YAML 1.1 takes for a truth value keeps its meaning', async () => {
    const file = join(folder, 'off.yaml');
    await writeFile(file, 'config: {server: {enginePages: off}, resources: {apiWrites: off}}');
    const chart = ['gw', 'manifests/helm/engine-gateway', '-f', file, '--kube-version', '1.34.0'];
    const text = renderedConfig(await helm('template', ...chart));
    const result = parseConfig(mountSecrets(folder, secrets)(text), environment);
    expect(result).toMatchObject({ config: { server: { enginePages: 'off' }, resources: { apiWrites: 'off' } } });
  });

  test('ports, Services and probes follow the configuration', async () => {
    const plain = await render({});
    expect(podOf(plain).containers[0]?.ports).toEqual([{ name: 'http', containerPort: 8080 }]);
    expect(podOf(plain).containers[0]?.readinessProbe.httpGet).toEqual({
      path: '/readyz',
      port: 'http',
      scheme: 'HTTP',
    });
    const secure = await render({
      tls: { enabled: true, existingSecret: 'x' },
      config: { serverConfig: { 'http-server.http.enabled': 'false', 'http-server.https.port': 9443 } },
      adminPort: 8090,
      probes: { liveness: { periodSeconds: 30 } },
    });
    const [container] = podOf(secure).containers;
    expect(container?.ports).toEqual([
      { name: 'https', containerPort: 9443 },
      { name: 'admin', containerPort: 8090 },
    ]);
    for (const probe of [container?.startupProbe, container?.livenessProbe, container?.readinessProbe]) {
      expect(probe?.httpGet).toMatchObject({ port: 'https', scheme: 'HTTPS' });
    }
    expect(container?.livenessProbe.periodSeconds).toBe(30);
    expect(portsOf(secure, 'gw-engine-gateway')).toEqual([{ name: 'https', port: 8443, targetPort: 'https' }]);
    expect(portsOf(secure, 'gw-engine-gateway-admin')).toEqual([{ name: 'https', port: 8080, targetPort: 'admin' }]);
    await accept(secure);
  });

  test('helm test asks the gateway behind its Service, over the listener that there is', async () => {
    const urlOf = async (values: object): Promise<string> => {
      const rendered = await render(values);
      await accept(rendered);
      const { containers } = objectOf(rendered, 'Pod', 'gw-engine-gateway-test').spec as {
        readonly containers: readonly { readonly image: string; readonly env: readonly { readonly value: string }[] }[];
      };
      expect(containers[0]?.image).toBe(podOf(rendered).containers[0]?.image);
      return containers[0]?.env[0]?.value ?? '';
    };
    expect(await urlOf({})).toBe('http://$(GW_ENGINE_GATEWAY_SERVICE_HOST):8080/readyz');
    expect(await urlOf({ service: { port: 80 } })).toBe('http://$(GW_ENGINE_GATEWAY_SERVICE_HOST):80/readyz');
    const tls = { enabled: true, existingSecret: 'tls' };
    expect(await urlOf({ tls, http: { enabled: false } })).toBe(
      'https://$(GW_ENGINE_GATEWAY_SERVICE_HOST):8443/readyz',
    );
  });

  test('an HTTPRoute each leads to queries and to the API', async () => {
    const rendered = await render({
      adminHosts: ['admin.example'],
      httpRoute: {
        enabled: true,
        parentRefs: [{ name: 'public', namespace: 'gateways', sectionName: 'https' }],
        hostnames: ['gw.example'],
        filters: [{ type: 'ResponseHeaderModifier', responseHeaderModifier: { remove: ['X-Internal'] } }],
        timeouts: { request: '0s' },
      },
    });
    await accept(rendered);
    const spec = (name: string) => objectOf(rendered, 'HTTPRoute', name).spec;
    const backend = (name: string) => ({ backendRefs: [{ name, port: 8080 }], timeouts: { request: '0s' } });
    expect(spec('gw-engine-gateway')).toMatchObject({
      parentRefs: [{ name: 'public', namespace: 'gateways', sectionName: 'https' }],
      hostnames: ['gw.example'],
      rules: [{ ...backend('gw-engine-gateway'), filters: [{ type: 'ResponseHeaderModifier' }] }],
    });
    expect(spec('gw-engine-gateway-admin')).toMatchObject({
      hostnames: ['admin.example'],
      rules: [backend('gw-engine-gateway-admin')],
    });
  });

  test('dashboards and alerts are those of the plain files, with labels, severities and runbooks of the user', async () => {
    const nameOfAll = (rules: AlertRules) => rules.groups.flatMap((group) => group.rules.map(({ alert }) => alert));
    expect(renderedObjects(await render({})).map(({ kind }) => kind)).not.toContain('PrometheusRule');
    const rendered = await render({
      metrics: {
        dashboards: {
          enabled: true,
          namespace: 'eg',
          labels: { team: 'data' },
          annotations: { grafana_folder: 'Gateways' },
        },
        prometheusRule: {
          enabled: true,
          labels: { release: 'prometheus' },
          runbookUrl: 'https://docs.example/alerts.html',
          disabled: ['EngineGatewayOpenFiles'],
          severities: { EngineGatewayClusterDown: 'page' },
        },
      },
    });
    await accept(rendered);
    const rule = objectOf(rendered, 'PrometheusRule');
    expect(rule.metadata.labels).toMatchObject({ release: 'prometheus' });
    const rules = rule.spec as unknown as AlertRules;
    expect(nameOfAll(rules)).toEqual(nameOfAll(shippedAlerts).filter((name) => name !== 'EngineGatewayOpenFiles'));
    const alertOf = (from: AlertRules) =>
      from.groups.flatMap((group) => group.rules).find(({ alert }) => alert === 'EngineGatewayClusterDown');
    expect(alertOf(rules)).toEqual({
      ...alertOf(shippedAlerts),
      labels: { severity: 'page' },
      annotations: {
        ...alertOf(shippedAlerts)?.annotations,
        runbook_url: 'https://docs.example/alerts.html#enginegatewayclusterdown',
      },
    });
    const dashboards = objectOf(rendered, 'ConfigMap', 'gw-engine-gateway-dashboards');
    expect(dashboards.metadata).toMatchObject({
      labels: { grafana_dashboard: '1', team: 'data' },
      annotations: { grafana_folder: 'Gateways' },
    });
    const folder = 'manifests/helm/engine-gateway/monitoring/dashboards';
    const names = await readdir(folder);
    expect(Object.keys(dashboards.data ?? {}).sort()).toEqual(names.sort());
    for (const name of names) expect(dashboards.data?.[name]).toBe(await readFile(join(folder, name), 'utf8'));
  });

  test('what a pod needs besides is passed on', async () => {
    const rendered = await render({
      image: { digest: `sha256:${'a'.repeat(64)}` },
      fullnameOverride: 'gateway',
      nameOverride: 'gw',
      podLabels: { team: 'data' },
      priorityClassName: 'system-cluster-critical',
      extraEnv: [{ name: 'HTTPS_PROXY', value: 'http://proxy.example' }],
      envFrom: [{ secretRef: { name: 'more' } }],
      extraVolumes: [{ name: 'extra', emptyDir: {} }],
      extraVolumeMounts: [{ name: 'extra', mountPath: '/extra' }],
      extraContainers: [{ name: 'sidecar', image: 'sidecar:1' }],
      initContainers: [{ name: 'wait', image: 'wait:1' }],
      lifecycle: { preStop: { sleep: { seconds: 5 } } },
      podDisruptionBudget: { maxUnavailable: 1 },
      topologySpread: {
        constraints: [{ maxSkew: 1, topologyKey: 'rack', whenUnsatisfiable: 'ScheduleAnyway' }],
      },
      autoscaling: {
        enabled: true,
        metrics: [
          {
            type: 'Pods',
            pods: {
              metric: { name: 'engine_gateway_cluster_requests_in_flight' },
              target: { type: 'AverageValue', averageValue: '200' },
            },
          },
        ],
      },
      networkPolicy: { from: [{ namespaceSelector: { matchLabels: { team: 'data' } } }] },
    });
    await accept(rendered);
    const deployment = objectOf(rendered, 'Deployment', 'gateway').spec;
    expect(deployment).toMatchObject({
      selector: { matchLabels: { 'app.kubernetes.io/name': 'gw', 'app.kubernetes.io/instance': 'gw' } },
      template: {
        metadata: { labels: { team: 'data', 'app.kubernetes.io/name': 'gw' } },
        spec: {
          priorityClassName: 'system-cluster-critical',
          initContainers: [{ name: 'wait' }],
          containers: [
            {
              image: `engine-gateway@sha256:${'a'.repeat(64)}`,
              env: expect.arrayContaining([{ name: 'HTTPS_PROXY', value: 'http://proxy.example' }]),
              envFrom: [{ secretRef: { name: 'more' } }],
              volumeMounts: expect.arrayContaining([{ name: 'extra', mountPath: '/extra' }]),
              lifecycle: { preStop: { sleep: { seconds: 5 } } },
            },
            { name: 'sidecar' },
          ],
          volumes: expect.arrayContaining([{ name: 'extra', emptyDir: {} }]),
          topologySpreadConstraints: [{ topologyKey: 'rack' }],
        },
      },
    });
    const budget = objectOf(rendered, 'PodDisruptionBudget', 'gateway').spec;
    expect(budget).toMatchObject({ maxUnavailable: 1 });
    expect(budget).not.toHaveProperty('minAvailable');
    const scaler = objectOf(rendered, 'HorizontalPodAutoscaler', 'gateway').spec;
    expect(scaler).toMatchObject({ metrics: [{ type: 'Resource' }, { type: 'Pods' }] });
    const [metric = ''] = /engine_gateway_\w+/.exec(JSON.stringify(scaler)) ?? [];
    expect(await readFile('docs/metrics.md', 'utf8')).toContain(`| \`${metric}\` |`);
    expect(objectOf(rendered, 'NetworkPolicy', 'gateway').spec).toMatchObject({
      ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: 'data' } } }] }],
    });
    expect(
      renderedObjects(await render({ podDisruptionBudget: { enabled: false } })).map(({ kind }) => kind),
    ).not.toContain('PodDisruptionBudget');
  });

  test.each([
    ['HTTPS without a certificate', { tls: { enabled: true } }, '/tls/existingSecret'],
    [
      'two certificates',
      { tls: { enabled: true, existingSecret: 'x', certManager: { enabled: true } } },
      'exclude each other',
    ],
    ['no listener', { config: { serverConfig: { 'http-server.http.enabled': false } } }, 'set tls.enabled=true'],
    ['a provider without an issuer', { auth: { oidc: { enabled: true, clientId: 'c' } } }, '/auth/oidc'],
    [
      'a provider without roles',
      {
        auth: {
          providers: [{ name: 'p', issuer: 'https://p', clientId: 'c', existingSecret: 's', redirectUrl: 'https://g' }],
        },
      },
      '/auth/providers/0',
    ],
    ['forms without keys', { auth: { form: { enabled: true } } }, '/auth/form/existingSecret'],
    ['nobody who may call', { auth: { kubernetes: { enabled: false } } }, 'set auth.kubernetes.enabled'],
    ['a route to no Gateway', { httpRoute: { enabled: true } }, 'httpRoute.parentRefs must name'],
    [
      'an alert that there is none of',
      { metrics: { prometheusRule: { enabled: true, disabled: ['EngineGatewayBored'] } } },
      'there is no alert EngineGatewayBored',
    ],
    ['a digest that is none', { image: { digest: 'latest' } }, '/image/digest'],
  ])('refuses %s', async (_name, values, named) => {
    const refused = render(values).catch((error: { readonly stderr: string }) => error.stderr);
    expect(await refused).toContain(named);
  });

  test('every value has its form in the schema', async () => {
    const values = parse(await readFile('manifests/helm/engine-gateway/values.yaml', 'utf8')) as object;
    const schema = JSON.parse(await readFile('manifests/helm/engine-gateway/values.schema.json', 'utf8')) as {
      readonly properties: object;
    };
    const optional = ['adminPort', 'global'];
    expect(Object.keys(schema.properties).sort()).toEqual([...Object.keys(values), ...optional].sort());
    expect(await readdir('manifests/helm/engine-gateway/templates')).not.toContain('configmap.yaml');
  });
});

/** Paths of the keys in a value. */
function keysOf(value: unknown, path = ''): readonly string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [path];
  return Object.entries(value).flatMap(([key, inner]) => keysOf(inner, `${path}/${key}`));
}

/** A value of each key, in the form of the file; one that no other key and no default has, where its kind allows it. */
function sampleOf(schema: FieldSchema, path: string): unknown {
  switch (schema.kind) {
    case 'section':
      return Object.fromEntries(
        Object.entries(schema.properties ?? {}).map(([name, inner]) => [name, sampleOf(inner, `${path}.${name}`)]),
      );
    case 'map':
      return schema.items === undefined ? {} : { sample: sampleOf(schema.items, `${path}.sample`) };
    case 'list':
      return schema.items === undefined ? [] : [sampleOf(schema.items, `${path}[0]`)];
    case 'choice':
      return schema.enum?.at(-1);
    case 'flag':
      return schema.default !== true;
    case 'integer':
    case 'number':
      return schema.range?.[1] ?? schema.range?.[0] ?? 1_234_567;
    case 'duration':
      return '61s';
    case 'size':
      return '77MB';
    default:
      return `text of ${path}`;
  }
}
