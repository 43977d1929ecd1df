import { mkdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse, stringify } from 'yaml';
import { runCommand } from '../../support/commandLine.ts';
import { manifest } from '../../support/manifest.ts';
import { worldOf } from '../../support/world.ts';

const world = worldOf('suite');
const file = (name: string, text: string): string => world.file(name, text);
/** The output without the folder of the files. */
const inFolder = (text: string): string => text.replaceAll(`${world.folder}/`, '');
const run = (args: readonly string[], input = '') => runCommand(args, {}, input);

/** Of test/operator/mistakes.test.ts. */
interface Mistake {
  readonly mistake: string;
  readonly kind: string;
  readonly spec: object;
}

const goodRules = `---
name: etl
description: nightly loads
priority: 10
condition: 'request.getHeader("X-Engine-Source") == "airflow"'
actions:
  - 'result.put("routingGroup", "etl")'
---
name: events
description: a large table
priority: 20
condition: 'engineQueryProperties.tablesContains("hive.web.events")'
actions:
  - 'result.put("routingGroup", "large")'
`;

describe('validate', () => {
  test('manifests of standard input, beside those of files', async () => {
    const cluster = stringify(manifest('EngineCluster', 'etl-1', { proxyTo: 'http://etl-1', routingGroup: 'etl' }));
    const rule = stringify(manifest('RoutingRule', 'lost', { condition: 'true', routeTo: { routingGroup: 'adhoc' } }));
    expect(await run(['validate', '-', file('etl-1.yaml', cluster)], rule)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(
        /^-:\d+:\d+: warning: lost: spec[.]routeTo[.]routingGroup: no cluster .*\n2 files, 2 resources, 0 rules: no mistakes\n$/,
      ),
    });
    expect(await run(['validate', '-'], `${cluster}---\n${rule.replace('adhoc', '7')}`)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('error: lost: spec.routeTo.routingGroup must be a text, not 7'),
    });
  });

  test('what rules mean here and not in Trino Gateway', async () => {
    const rules = file(
      'differs.yaml',
      `---
name: first
description: d
priority: 5
condition: 'state.get("x") contains "a"'
actions:
  - 'result.put("routingGroup", "etl")'
---
name: second
description: d
condition: |
  x = request.getHeader("X-Engine-Source");
  x == "dbt"
actions:
  - 'state.put("all", ["a"] + ["b"])'
`,
    );
    const manifests = file(
      'differs.manifest.yaml',
      `apiVersion: enginegateway.dev/v1beta1
kind: RoutingRule
metadata: {name: third}
spec:
  condition: request.isSecure() > false
  routeTo: {routingGroup: etl}
`,
    );
    const { code, stdout } = await run(['validate', rules, manifests]);
    expect(code).toBe(0);
    const lines = stdout.split('\n').slice(0, -2);
    expect(lines.map((line) => inFolder(line).split(': ').slice(0, 4).join(': '))).toEqual([
      'differs.yaml:9:1: warning: second: priority is missing while "first" has 5',
      'differs.yaml:12:3: warning: second: condition',
      'differs.yaml:15:29: warning: second: actions[0]',
      'differs.manifest.yaml:5:33: warning: third: spec.condition',
    ]);
    expect(lines[2]).toContain(
      'Trino Gateway makes one list of the elements of both, here the right one becomes a single element; call addAll',
    );
    expect((await run(['validate', '--strict', rules])).code).toBe(1);
    expect((await run(['validate', '--no-differences', '--strict', rules, manifests])).code).toBe(0);
    const chosen = await run(['validate', '--default-priority', '0', rules]);
    expect(chosen.stdout).not.toContain('priority is missing');
    expect((await run(['validate', '--default-priority', 'x', rules])).code).toBe(2);
  });

  test('good files', async () => {
    const path = file('good.yaml', goodRules);
    expect(await run(['validate', path])).toEqual({
      code: 0,
      stdout: '1 files, 0 resources, 2 rules: no mistakes\n',
      stderr: '',
    });
  });

  test('a # that YAML or the rules language takes otherwise than meant', async () => {
    const rules = file(
      'hashes.yaml',
      `name: cut
description: d
condition: request.getHeader("X-Engine-Source") == "etl #1"
actions:
  - result.put("routingGroup", "etl")
---
name: comment
description: d
condition: |
  # only loads
  request.getHeader("X-Engine-Source") == "airflow"
actions:
  - result.put("routingGroup", "etl")
`,
    );
    const { stdout } = await run(['validate', rules]);
    expect(inFolder(stdout).split('\n').slice(0, 2)).toEqual([
      'hashes.yaml:3:52: error: cut: condition: the string has no end: " is missing; in YAML, # after a space starts a comment, unless the whole value is quoted or a block after |',
      'hashes.yaml:10:3: error: comment: condition: # cannot be used here: write // for a comment, or + to concatenate strings',
    ]);
  });

  test('every mistake of manifests and rules with file, line and column', async () => {
    const rules = file(
      'bad.yaml',
      `${goodRules}---\nname: bad\ndescription: d\ncondition: |\n  true &&\n    ("a"\nactions: []\ncolour: red\n`,
    );
    const manifests = file(
      'manifests.yaml',
      'apiVersion: enginegateway.dev/v1beta1\nkind: RoutingRule\nmetadata: {name: night}\nspec:\n  condition: \'reqest == "x"\'\n  routeTo:\n    routingGroup: a\n---\napiVersion: enginegateway.dev/v1beta1\nkind: EngineCluster\nmetadata: {name: a}\nspec: {routingGroup: a}\n---\napiVersion: v1\nkind: Service\nmetadata: {name: other}\n',
    );
    const { code, stdout } = await run(['validate', rules, manifests]);
    expect(code).toBe(1);
    expect(stdout.split('\n')).toEqual([
      `${rules}:22:1: error: bad: unknown field colour; a rule has name, description, priority, condition, actions`,
      `${manifests}:5:15: warning: night: spec.condition: unknown variable reqest; there are request, state, result, engineRequestUser, engineQueryProperties`,
      expect.stringMatching(
        /manifests\.yaml:12:\d+: error: a: spec\.proxyTo is missing: proxyTo or serviceRef must be set, and not both/,
      ),
      '2 files, 2 resources, 2 rules: 2 mistakes',
      '',
    ]);
  });

  test('--no-analysis refuses rules that need it, --strict counts warnings', async () => {
    const path = file('good2.yaml', goodRules);
    const { code, stdout } = await run(['validate', '--no-analysis', path]);
    expect(code).toBe(1);
    expect(stdout).toContain(`${path}:12:13: error: events: condition: engineQueryProperties needs request analysis`);
    const warned = file('warned.yaml', goodRules.replace('"airflow"', 'airflow'));
    expect((await run(['validate', warned])).code).toBe(0);
    expect((await run(['validate', '--strict', warned])).code).toBe(1);
  });

  test('an address that gateways refuse unless their configuration allows it', async () => {
    const cluster = (proxyTo: string) =>
      `apiVersion: enginegateway.dev/v1beta1\nkind: EngineCluster\nmetadata: {name: a}\nspec:\n  routingGroup: a\n  proxyTo: ${proxyTo}\n`;
    const path = file('metadata.yaml', cluster('http://169.254.169.254'));
    const { code, stdout } = await run(['validate', path]);
    expect(code).toBe(0);
    expect(stdout).toContain(
      `${path}:6:3: warning: a: spec.proxyTo: 169.254.169.254 is the metadata service of a cloud`,
    );
    expect((await run(['validate', file('local.yaml', cluster('http://127.0.0.1:1'))])).stdout).not.toContain(
      'warning',
    );
  });

  test('files of resource groups', async () => {
    const good = {
      rootGroups: [{ name: 'global', hardConcurrencyLimit: 10, maxQueued: 100 }],
      selectors: [{ group: 'global' }],
    };
    const path = file('resource-groups.json', `${JSON.stringify(good, null, 2)}\n`);
    expect(await run(['validate', path])).toMatchObject({
      code: 0,
      stdout: '1 files, 0 resources, 0 rules: no mistakes\n',
    });
    const bad = {
      rootGroups: [{ name: 'global', hardConcurrencyLimit: 10, maxQueued: 100, softMemoryLimit: '80' }],
      selectors: [{ user: 'bob', group: 'adhoc' }],
    };
    const wrong = file('wrong-groups.json', JSON.stringify(bad, null, 2));
    const broken = file('broken-groups.json', '{\n  "rootGroups": [],\n}\n');
    const { code, stdout } = await run(['validate', wrong, broken]);
    expect(code).toBe(1);
    expect(inFolder(stdout).split('\n')).toEqual([
      'wrong-groups.json:7:7: error: rootGroups[0].softMemoryLimit must be a percentage such as 80% or a size such as 5GB (B, kB, MB, GB, TB, PB)',
      'wrong-groups.json:13:7: error: selectors[0].group leads nowhere: there is no group "adhoc"',
      expect.stringMatching(/^broken-groups\.json:3:1: error: is not JSON: /),
      '2 files, 0 resources, 0 rules: 3 mistakes',
      '',
    ]);
    const warned = file(
      'warned-groups.json',
      JSON.stringify({ ...good, selectors: [{ group: 'global' }, { user: 'bob', group: 'global' }] }, null, 2),
    );
    expect(inFolder((await run(['validate', warned])).stdout)).toContain(
      'warned-groups.json:13:5: warning: selectors[1] is never reached: selectors[0] takes all that it would match\n',
    );
    expect((await run(['validate', '--strict', warned])).code).toBe(1);
  });

  test('resources of resource groups, with the place of each mistake', async () => {
    const resource = (name: string, spec: string) =>
      `apiVersion: enginegateway.dev/v1beta1\nkind: ResourceGroupConfiguration\nmetadata: {name: ${name}}\nspec:\n${spec}`;
    const documents = [
      resource(
        'wrong',
        `  environment: production
  databases: [trino_eu, trino_eu]
  rootGroups:
    - name: global
      hardConcurrencyLimit: 10
      maxQueued: 100
      softMemoryLimit: '80'
      subGroups:
        - {name: a.b, hardConcurrencyLimit: 1, maxQueued: 1}
  selectors:
    - {user: '(', group: global.a}
    - {queryType: QUERY, group: adhoc}
`,
      ),
      resource(
        'form',
        `  rootGroups:
    - {name: global, hardConcurrencyLimit: ten, hardPhysicalDataScanLimit: 1TB}
  selectors: []
  whenDrifted: Ignore
`,
      ),
      resource(
        'warned',
        `  environment: production
  rootGroups:
    - {name: global, hardConcurrencyLimit: 10, maxQueued: 100}
    - {name: idle, hardConcurrencyLimit: 10}
  selectors:
    - {group: global}
    - user: bob
      group: global
`,
      ),
      resource(
        'good',
        `  environment: staging
  rootGroups: [{name: global, hardConcurrencyLimit: 10, maxQueued: 100}]
  selectors: [{group: global}]
`,
      ),
    ];
    const manifests = file('groups.manifest.yaml', documents.join('---\n'));
    const { code, stdout } = await run(['validate', manifests]);
    expect(code).toBe(1);
    expect(inFolder(stdout).split('\n')).toEqual([
      'groups.manifest.yaml:6:3: error: wrong: spec.databases must not hold a name twice',
      'groups.manifest.yaml:11:7: error: wrong: spec.rootGroups[0].softMemoryLimit must be a percentage such as 80% or a size such as 5GB (B, kB, MB, GB, TB, PB)',
      'groups.manifest.yaml:13:12: error: wrong: spec.rootGroups[0].subGroups[0].name must not hold a dot, which separates a group from its parent',
      'groups.manifest.yaml:15:19: error: wrong: spec.selectors[0].group leads nowhere: there is no group "global.a"',
      'groups.manifest.yaml:16:8: error: wrong: spec.selectors[1].queryType must be one of SELECT, EXPLAIN, DESCRIBE, INSERT, UPDATE, DELETE, MERGE, ANALYZE, ALTER_TABLE_EXECUTE, DATA_DEFINITION',
      'groups.manifest.yaml:16:26: error: wrong: spec.selectors[1].group leads nowhere: there is no group "adhoc"',
      'groups.manifest.yaml:21:1: error: form: spec.environment is required',
      'groups.manifest.yaml:23:22: error: form: spec.rootGroups[0].hardConcurrencyLimit must be a whole number, not a text',
      "groups.manifest.yaml:23:49: error: form: spec.rootGroups[0].hardPhysicalDataScanLimit has no column in the tables that engines read; the engine's file alone has it",
      'groups.manifest.yaml:25:3: error: form: spec.whenDrifted must be one of "Repair", "Report"',
      'groups.manifest.yaml:34:7: warning: warned: spec.rootGroups[1].maxQueued is missing: 0, so that a query that cannot run at once is refused',
      'groups.manifest.yaml:34:7: warning: warned: spec.rootGroups[1] has no selector that leads to "idle", or below it: no query runs in it',
      'groups.manifest.yaml:37:7: warning: warned: spec.selectors[1] is never reached: selectors[0] takes all that it would match',
      '1 files, 4 resources, 0 rules: 10 mistakes',
      '',
    ]);
    const warned = file('groups.warned.yaml', documents[2] ?? '');
    expect((await run(['validate', warned])).code).toBe(0);
    expect((await run(['validate', '--strict', warned])).code).toBe(1);
  });

  test.each(parse(readFileSync('test/fixtures/mistakes.yaml', 'utf8')) as readonly Mistake[])(
    'a mistake that the API server rejects too, $kind: $mistake',
    async ({ kind, spec }) => {
      const { code, stdout } = await run(['validate', '-'], stringify(manifest(kind, 'mistake', spec)));
      expect([code, stdout]).toEqual([1, expect.stringMatching(/^-:\d+:\d+: error: mistake: spec/m)]);
    },
  );

  describe('what a gateway would not accept', () => {
    const tenant = (more: object = {}) =>
      manifest('EngineTenant', 'bi', { namespaces: { names: ['bi'] }, routingGroups: [{ value: 'bi' }], ...more });
    const of = (kind: string, name: string, spec: object, namespace?: string) =>
      manifest(kind, name, spec, namespace === undefined ? {} : { namespace });
    const clusterOf = (name: string, routingGroup: string, namespace?: string, more: object = {}) =>
      of('EngineCluster', name, { proxyTo: 'http://e:8080', routingGroup, ...more }, namespace);
    const text = (...documents: readonly object[]) => documents.map((each) => stringify(each)).join('---\n');
    const missing = (what: string, grant: string) =>
      `${what} is not granted to the tenant bi; choose another, or have it added to spec.${grant} of the EngineTenant bi`;
    const errors = async (args: readonly string[], input: string): Promise<readonly string[]> => {
      const { stdout } = await run(['validate', ...args, '-'], input);
      return stdout.split('\n').filter((line) => line.includes(': error: '));
    };
    const configured = (resources: object, more: object = {}): readonly string[] => [
      '--config',
      file('validate.gateway.yaml', stringify({ resources: { source: 'kubernetes', ...resources }, ...more })),
    ];
    const several = { namespace: '*', writeNamespace: 'gateways' };

    test('missing grants of the tenants among the manifests, at their field', async () => {
      const rule = of('RoutingRule', 'bi-r', { condition: 'true', routeTo: { routingGroup: 'bi' } }, 'bi');
      const input = text(tenant(), clusterOf('bi-a', 'etl', 'bi'), clusterOf('b', 'bi', 'bi'), rule);
      expect(await errors([], input)).toEqual([
        expect.stringMatching(
          `^-:\\d+:3: error: bi-a: spec.routingGroup: ${missing('the routing group etl', 'routingGroups')}$`,
        ),
        expect.stringMatching(`^-:\\d+:1: error: b: spec.name: ${missing('the name b', 'names')}$`),
        expect.stringContaining(
          'bi-r: the tenant bi decides no queries; have spec.decides added to the EngineTenant bi',
        ),
      ]);
      const decides = { decides: { users: [{ value: 'ann' }] } };
      expect(await errors([], text(tenant(decides), clusterOf('bi-a', 'bi', 'bi'), rule))).toEqual([]);
      // Without a configuration, another namespace may be the platform's.
      expect(await errors([], text(tenant(), clusterOf('x', 'etl', 'other')))).toEqual([]);
    });

    test('a name that two resources have in namespaces of no tenant', async () => {
      const inputs = [
        text(tenant(), clusterOf('x', 'etl', 'other'), clusterOf('x', 'etl', 'third')),
        text(tenant(), clusterOf('bi-a', 'bi', 'bi'), clusterOf('bi-a', 'etl', 'other')),
      ];
      for (const [index, name] of ['x', 'bi-a'].entries())
        expect(await errors([], inputs[index] ?? '')).toEqual([
          expect.stringMatching(new RegExp(`error: ${name}: .*${name}.*(other|third|bi)/${name}`)),
        ]);
      // A name that is not granted takes none from others.
      const squatted = text(tenant(), clusterOf('x', 'bi', 'bi'), clusterOf('x', 'etl', 'other'));
      expect(await errors([], squatted)).toEqual([expect.stringContaining(missing('the name x', 'names'))]);
    });

    test('namespaces without a tenant, where the configuration reads several', async () => {
      const input = text(
        tenant(),
        clusterOf('x', 'etl', 'other'),
        clusterOf('y', 'etl', 'gateways'),
        clusterOf('z', 'etl'),
      );
      const message = 'x: namespace other belongs to no active EngineTenant; have it added to spec.namespaces of one';
      expect(await errors(configured(several), input)).toEqual([expect.stringContaining(message)]);
      const selecting = tenant({ namespaces: { selector: { matchLabels: { team: 'bi' } } } });
      expect(await errors(configured(several), text(selecting, clusterOf('x', 'etl', 'other')))).toEqual([]);
      expect(await errors(configured({ namespace: 'other' }), text(clusterOf('x', 'etl', 'other')))).toEqual([]);
    });

    test('two tenants with one namespace, and root groups that are declared twice', async () => {
      const other = manifest('EngineTenant', 'other', { namespaces: { names: ['bi'] } });
      expect(await errors([], text(tenant(), other))).toEqual([
        expect.stringContaining('other: spec.namespaces: namespace bi belongs to the older EngineTenant bi'),
      ]);
      const groups = (name: string) =>
        of('ResourceGroupConfiguration', name, {
          environment: 'prod',
          rootGroups: [{ name: 'global', softMemoryLimit: '80%', hardConcurrencyLimit: 5, maxQueued: 5 }],
          selectors: [{ group: 'global' }],
        });
      expect(await errors([], text(groups('a'), groups('b')))).toEqual([
        expect.stringContaining('b: the group global of the environment prod'),
      ]);
    });

    test('addresses, Services and the class of the configuration', async () => {
      const metadata = { proxyTo: 'http://169.254.169.254' };
      const input = text(
        clusterOf('a', 'etl', 'default', metadata),
        clusterOf('b', 'etl', 'default', { proxyTo: undefined, serviceRef: { name: 's', namespace: 'far', port: 80 } }),
        clusterOf('c', 'etl', 'default', { ...metadata, gatewayClassName: 'blue' }),
      );
      expect(await errors([], input)).toEqual([]);
      expect(await errors(configured({}), input)).toEqual([
        expect.stringContaining('a: spec.proxyTo: 169.254.169.254 is the metadata service'),
        expect.stringContaining('b: spec.serviceRef.namespace far is not this resource'),
      ]);
      const allowed = { allowedAddresses: ['169.254.169.254'], allowedServiceNamespaces: ['far'] };
      const { code, stdout } = await run(['validate', ...configured(allowed), '-'], input);
      expect([code, stdout]).toEqual([0, '1 files, 3 resources, 0 rules: no mistakes\n']);
      const blue = await run(['validate', ...configured({ class: 'blue' }), '-'], input);
      expect(blue.stdout).toContain('error: c: spec.proxyTo: 169.254.169.254');
      expect(blue.stdout).toContain('warning: a: is for gateways without a class');
    });

    test('rules as the configuration compiles them', async () => {
      const condition = 'engineRequestUser.userExistsAndEquals("ann")';
      const input = text(of('RoutingRule', 'r', { condition, routeTo: { routingGroup: 'etl' } }));
      expect(await errors(configured({}, { requestAnalyzerConfig: { analyzeRequest: true } }), input)).toEqual([]);
      expect(await errors(configured({}, { requestAnalyzerConfig: { analyzeRequest: false } }), input)).toHaveLength(1);
    });

    test('namespace of a kustomization next to the files', async () => {
      mkdirSync(world.path('overlay'), { recursive: true });
      file('overlay/kustomization.yaml', 'namespace: bi\nresources: [clusters.yaml]\n');
      const path = file(
        'overlay/clusters.yaml',
        text(clusterOf('b', 'bi'), clusterOf('bi-c', 'bi', 'elsewhere'), tenant()),
      );
      const { code, stdout } = await run(['validate', path]);
      expect(code).toBe(1);
      expect(stdout).toContain(`error: b: spec.name: ${missing('the name b', 'names')}`);
      expect(stdout).toContain('1 files, 3 resources, 0 rules: 1 mistakes');
    });
  });

  test('names that are there twice, over files and manifests', async () => {
    const cluster = (metadata: string, spec = '') =>
      `apiVersion: enginegateway.dev/v1beta1\nkind: EngineCluster\nmetadata: ${metadata}\nspec: {${spec}routingGroup: a, proxyTo: "http://e:8080"}\n`;
    const ruleOf = (name: string) =>
      `apiVersion: enginegateway.dev/v1beta1\nkind: RoutingRule\nmetadata: {name: ${name}}\nspec: {condition: "true", routeTo: {routingGroup: a}}\n`;
    const first = file(
      'names-1.yaml',
      [cluster('{name: a}'), cluster('{name: b, namespace: team}'), cluster('{name: c}'), ruleOf('etl')].join('---\n'),
    );
    const second = file(
      'names-2.yaml',
      [
        cluster('{name: a}'),
        cluster('{name: b, namespace: other}'),
        cluster('{name: d, creationTimestamp: "2026-01-01T00:00:00Z"}', 'name: c, '),
        cluster('{name: e}'),
      ].join('---\n'),
    );
    const rules = file('names-rules.yaml', `${goodRules}${goodRules.replace('name: events', 'name: other')}`);
    const { code, stdout } = await run(['validate', first, second, rules]);
    expect(code).toBe(1);
    const found = inFolder(stdout).split('\n').slice(0, -2);
    expect(found).toEqual([
      'names-1.yaml:8:12: error: b: the name b belongs to the older EngineCluster other/b; set another spec.name or delete one of the two',
      'names-2.yaml:3:12: error: a: EngineCluster default/a is in names-1.yaml:3 too; delete one of the two, or set another metadata.name',
      'names-2.yaml:14:8: error: c: the name c belongs to the older EngineCluster default/c; set another spec.name or delete one of the two',
      expect.stringContaining('names-rules.yaml:2:1: warning: etl: the rule names-1.yaml:18 has this name too: both'),
      expect.stringContaining('names-rules.yaml:16:1: warning: etl: the rule names-1.yaml:18 has this name too: both'),
    ]);
    expect((await run(['validate', file('names-3.yaml', cluster('{name: a}')), rules])).code).toBe(0);
  });

  test('groups that no cluster of the files belongs to, where some file has clusters', async () => {
    const of = (kind: string, name: string, spec: object) =>
      `${JSON.stringify({ apiVersion: 'enginegateway.dev/v1beta1', kind, metadata: { name }, spec })}\n`;
    const rest = file(
      'groups.yaml',
      [
        of('RoutingGroup', 'etl', { fallbacks: ['adhoc', 'nowhere'] }),
        of('RoutingGroup', 'spilled', { fallbacks: ['adhoc'] }),
        of('RoutingGroup', 'lonely', {}),
        of('QueryLimit', 'some', {
          per: 'All',
          maxRunningQueries: 1,
          match: {
            routingGroups: [{ value: 'adhoc' }, { value: 'none' }, { type: 'RegularExpression', value: 'n.*' }],
          },
        }),
        of('RoutingRule', 'good', { condition: 'true', routeTo: { routingGroup: 'spilled' } }),
        of('RoutingRule', 'bad', { condition: 'true', routeTo: { routingGroup: 'void' } }),
        of('QueryLimit', 'blue', {
          per: 'All',
          maxRunningQueries: 1,
          gatewayClassName: 'blue',
          match: { routingGroups: [{ value: 'x' }] },
        }),
      ].join('---\n'),
    );
    expect((await run(['validate', rest])).stdout).toBe('1 files, 7 resources, 0 rules: no mistakes\n');
    const clusters = file(
      'groups-clusters.yaml',
      of('EngineCluster', 'a', { proxyTo: 'http://a:1', routingGroup: 'adhoc' }),
    );
    const { code, stdout } = await run(['validate', rest, clusters]);
    const found = inFolder(stdout).split('\n').slice(0, -2);
    expect([code, found.map((line) => line.replace(/^\S+ warning: /, '').replace(/; .*/, ''))]).toEqual([
      0,
      [
        'etl: spec.fallbacks[1]: no cluster of these files belongs to the routing group nowhere',
        'lonely: spec: no cluster of these files belongs to the routing group lonely',
        'some: spec.match.routingGroups[1].value: no cluster of these files belongs to the routing group none',
        'bad: spec.routeTo.routingGroup: no cluster of these files belongs to the routing group void',
      ],
    ]);
  });

  test('what the API server refuses and what has no effect', async () => {
    const manifest = file(
      'effects.yaml',
      `apiVersion: enginegateway.dev/v1beta1
kind: EngineCluster
metadata: {name: a}
spec:
  proxyTo: http://e:99999
  routingGroup: "etl large"
  tls: {serverName: e}
---
apiVersion: enginegateway.dev/v1beta1
kind: RoutingRule
metadata: {name: r}
spec:
  condition: "true"
  actions:
    - result.put("routinggroup", "etl"); result.cluster = "a"
---
apiVersion: enginegateway.dev/v1beta1
kind: RoutingRule
metadata: {name: s}
spec:
  condition: "true"
  routeTo: {routingGroup: " etl"}
`,
    );
    const { code, stdout } = await run(['validate', manifest]);
    expect(code).toBe(1);
    const key = (name: string) => `result has no key ${name}: it has no effect; the group is routingGroup`;
    expect(inFolder(stdout).split('\n').slice(0, -2)).toEqual([
      'effects.yaml:5:3: error: a: spec.proxyTo has port 99999; ports are 1 to 65535',
      expect.stringContaining('effects.yaml:6:3: warning: a: spec.routingGroup: "etl large" holds a space'),
      expect.stringContaining('effects.yaml:7:3: error: a: spec.tls: tls has no effect over http; begin proxyTo with'),
      expect.stringContaining(`effects.yaml:15:18: warning: r: spec.actions[0]: ${key('routinggroup')}`),
      expect.stringContaining(`effects.yaml:15:49: warning: r: spec.actions[0]: ${key('cluster')}`),
      expect.stringContaining('effects.yaml:22:13: error: s: spec.routeTo.routingGroup: routingGroup must not begin'),
    ]);
  });

  test('a file that is not there', async () => {
    expect((await run(['validate', world.path('none.yaml')])).code).toBe(1);
  });
});

describe('evaluate', () => {
  test('which resource group of a file takes a request', async () => {
    const limits = { hardConcurrencyLimit: 10, maxQueued: 100 };
    const groups = {
      rootGroups: [
        { name: 'etl', ...limits },
        { name: 'adhoc', ...limits, subGroups: [{ name: '${USER}', ...limits }] },
      ],
      selectors: [
        { source: 'airflow', queryType: 'INSERT', group: 'etl' },
        {
          userGroup: 'analysts',
          clientTags: ['hi'],
          selectorResourceEstimate: { cpuTime: { max: '1h' } },
          group: 'adhoc.${USER}',
        },
      ],
    };
    const path = file('groups.json', JSON.stringify(groups));
    const headers = {
      'X-Trino-User': 'ann',
      'X-Trino-Source': 'airflow',
      'X-Trino-Client-Tags': 'lo, hi',
      'X-Trino-Resource-Estimate': 'CPU_TIME=30m,PEAK_MEMORY=1GB',
    };
    const request = file('groups-request.json', JSON.stringify({ headers, body: 'SELECT 1' }));
    const args = ['evaluate', '--resource-groups', path, '--request'];
    expect(await run([...args, request, '--groups', 'staff,analysts'])).toMatchObject({
      code: 0,
      stdout: `resource group adhoc.ann (selectors[1] is the first that matches)
  not-matched selectors[0] etl: queryType INSERT is not that of the query, SELECT
  matched     selectors[1] adhoc.\${USER}: all its conditions hold
`,
    });
    const insert = file('groups-insert.json', JSON.stringify({ headers, body: 'INSERT INTO t SELECT 1' }));
    expect((await run([...args, insert])).stdout).toMatch(/^resource group etl /);
    expect(
      (await run([...args, request])).stdout,
    ).toBe(`no selector matches: the engine refuses the query (QUERY_REJECTED)
  not-matched selectors[0] etl: queryType INSERT is not that of the query, SELECT
  not-matched selectors[1] adhoc.\${USER}: "analysts" has nothing to match: the user is in no group
`);
    const selection = JSON.parse((await run([...args, insert, '--json'])).stdout);
    expect(selection).toMatchObject({ outcome: 'selected', selector: 0, group: ['etl'] });
    const nobody = file('groups-nobody.json', JSON.stringify({ body: 'SELECT 1' }));
    expect(await run([...args, nobody])).toMatchObject({ code: 1, stderr: expect.stringContaining('X-Engine-User') });
    const wrong = file('groups-wrong.json', JSON.stringify({ rootGroups: [], selectors: [{ group: 'a' }] }));
    expect(await run(['evaluate', '--resource-groups', wrong, '--request', request])).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('selectors[0].group leads nowhere: there is no group "a"'),
    });
    expect((await run(['evaluate', '--request', request])).code).toBe(2);

    // What is kept in Git: a resource, among others, as YAML or JSON.
    const resource = (name: string, spec: object = groups) =>
      manifest('ResourceGroupConfiguration', name, { environment: 'production', ...spec });
    const cluster = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'a' } };
    const yaml = file('groups.manifest.yaml', [cluster, resource('a')].map((each) => stringify(each)).join('---\n'));
    const json = file('groups.manifest.json', JSON.stringify(resource('a')));
    for (const manifest of [yaml, json]) {
      expect(await run(['evaluate', '--resource-groups', manifest, '--request', insert])).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^resource group etl \(selectors\[0] is the first that matches\)/),
      });
    }
    const errors = async (name: string, ...documents: readonly object[]) => {
      const manifest = file(name, documents.map((each) => stringify(each)).join('---\n'));
      const { code, stdout, stderr } = await run(['evaluate', '--resource-groups', manifest, '--request', insert]);
      expect([code, stdout]).toEqual([1, '']);
      return inFolder(stderr);
    };
    expect(await errors('two.yaml', resource('a'), resource('b'))).toMatch(
      /^two\.yaml:\d+:1: error: there are 2 resources of the kind ResourceGroupConfiguration; give a file with the one that is meant\n$/,
    );
    expect(await errors('none.yaml', { ...resource('a'), kind: 'EngineCluster' })).toBe(
      'none.yaml:1:1: error: none of the manifests is a ResourceGroupConfiguration\n',
    );
    expect(await errors('mistake.yaml', cluster, resource('a', { ...groups, selectors: [{ group: 'x' }] }))).toMatch(
      /^mistake\.yaml:\d+:7: error: a: spec\.selectors\[0]\.group leads nowhere: there is no group "x"\n$/,
    );
    expect(await errors('unnamed.yaml', { ...resource('a'), metadata: { name: 'A b' } })).toMatch(
      /^unnamed\.yaml:4:1: error: metadata\.name must be a Kubernetes name/,
    );
  });

  test('shows the decision for a described request', async () => {
    const rules = file('rules.yaml', goodRules);
    const request = file(
      'request.json',
      JSON.stringify({
        headers: { 'X-Engine-User': 'ann', 'X-Engine-Source': 'airflow' },
        body: 'SELECT * FROM hive.web.events',
      }),
    );
    const { code, stdout } = await run(['evaluate', '--rules', rules, '--request', request]);
    expect(code).toBe(0);
    expect(stdout).toBe(
      'routing group large (rule events)\nuser: ann\nstatement: Query of hive.web.events\n  fired       etl {"routingGroup":"etl"}\n  fired       events {"routingGroup":"large"}\n',
    );
    const json = await run(['evaluate', '--rules', rules, '--request', '-', '--json'], '{"body":"SELECT 1"}');
    expect(JSON.parse(json.stdout)).toMatchObject({ routingGroup: null, rule: null });
  });

  test('--user-mapping: rules see the mapped user, and the answer says from which name', async () => {
    const rule = {
      name: 'team',
      condition: 'engineRequestUser.userExistsAndEquals("ann")',
      actions: ['result.put("routingGroup", "etl")'],
    };
    const rules = file('mapped.yaml', stringify(rule));
    const denied = { pattern: 'root.*', allow: false };
    const mapping = file(
      'users.json',
      JSON.stringify({ rules: [denied, { pattern: '(.*)@example\\.com', case: 'lower' }] }),
    );
    const evaluate = (request: object, ...more: string[]) =>
      run(
        ['evaluate', '--rules', rules, '--user-mapping', mapping, '--request', '-', ...more],
        JSON.stringify(request),
      );
    const first = async (request: object) => (await evaluate(request)).stdout.split('\n').slice(0, 2);
    const toEtl = ['routing group etl (rule team)', 'user: ann, mapped from Ann@example.com'];
    expect(await first({ headers: { 'X-Engine-User': 'Ann@example.com' } })).toEqual(toEtl);
    expect(await first({ user: 'Ann@example.com', mapUser: true })).toEqual(toEtl);
    expect(await first({ user: 'ann' })).toEqual(['routing group etl (rule team)', 'user: ann']);
    expect(await first({ user: 'root', mapUser: true })).toEqual([
      'refused: The user "root" is refused by the user mapping of the gateway: it is not allowed.',
      'user: none',
    ]);
    const json = await evaluate({ user: 'Ann@example.com', mapUser: true }, '--json');
    expect(JSON.parse(json.stdout)).toMatchObject({ routingGroup: 'etl', userMapping: { from: 'Ann@example.com' } });
    const wrong = ['evaluate', '--rules', rules, '--user-mapping', rules, '--request', '-'];
    expect(await run(wrong, '{}')).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('error: --user-mapping: '),
    });
  });

  test('--default-priority orders rules of a file that have none', async () => {
    const order = file(
      'order.yaml',
      ['priority: 5\n', '']
        .map(
          (more, index) =>
            `name: r${index}\n${more}condition: "true"\nactions: ['result.put("routingGroup", "g${index}")']\n`,
        )
        .join('---\n'),
    );
    const request = file('any.json', '{}');
    const evaluated = async (...more: readonly string[]) =>
      (await run(['evaluate', '--rules', order, '--request', request, ...more])).stdout.split('\n')[0];
    expect(await evaluated()).toBe('routing group g1 (rule r1)');
    expect(await evaluated('--default-priority', '0')).toBe('routing group g0 (rule r0)');
  });

  test('a file with mistakes and a wrong description fail', async () => {
    const rules = file('broken.yaml', '---\nname: x\n');
    const request = file('request2.json', '{"paht": "/"}');
    const broken = await run(['evaluate', '--rules', rules, '--request', request]);
    expect(broken.code).toBe(1);
    expect(broken.stderr).toContain(`${rules}:2:1: error: condition is missing`);
    const wrong = await run(['evaluate', '--rules', file('ok.yaml', goodRules), '--request', request]);
    expect(wrong.code).toBe(1);
    expect(wrong.stderr).toContain('paht');
  });

  test('--cases answers line by line', async () => {
    const { code, stdout } = await run(
      ['evaluate', '--cases'],
      '{"id":"a","kind":"expression","expr":"1 + 2L","vars":{}}\n{"id":"b","kind":"expression","expr":"1 +","vars":{}}\n',
    );
    expect(code).toBe(0);
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual([
      { id: 'a', value: 3, type: 'long' },
      { id: 'b', error: 'line 1, column 4: a value is missing; found the end', phase: 'compile' },
    ]);
  });

  test('--cases survives values that are deep, large or contain themselves', async () => {
    const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;
    const expressions = [
      'l = new ArrayList(); l.add(l); l',
      'l = new ArrayList(); l.add(l); l.toString()',
      'l = new ArrayList(); l.add(l); m = new ArrayList(); m.add(m); l == m',
      'l = ["x"]; i = 0; while (i < 5000) { l = [l]; i++ } l',
      'l = ["x"]; i = 0; while (i < 60) { l = [l, l]; i++ } l',
      's = "ab".repeat(2000000); l = []; i = 0; while (i < 1000) { l.add(s); i++ } l',
      's = new HashSet(); s.add([1, 2]); s',
    ];
    const lines = [
      ...expressions.map((expr, id) => JSON.stringify({ id: String(id), kind: 'expression', expr })),
      `{"id":"state","kind":"expression","expr":"state.put(\\"s\\", state); 1","vars":{"state":{}}}`,
      `{"id":"given","kind":"expression","expr":"1","vars":{"state":{"a":${deep}}}}`,
    ];
    const { code, stdout, stderr } = await run(['evaluate', '--cases'], `${lines.join('\n')}\n`);
    expect([code, stderr]).toEqual([0, '']);
    const results = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    const nested = expect.stringContaining('a value is nested deeper than 64');
    const budget = expect.stringContaining('budget of');
    expect(results).toEqual([
      ...['0', '1', '2', '3'].map((id) => ({ id, error: nested, phase: 'run' })),
      ...['4', '5'].map((id) => ({ id, error: budget, phase: 'run' })),
      { id: '6', value: [[1, 2]], type: 'set' },
      ...['state', 'given'].map((id) => ({ id, error: nested, phase: 'run' })),
    ]);
  });
});
