import { expect, test } from 'vitest';
import { effectiveYaml } from '../../../src/config/derived.ts';
import { configFields, type GatewayConfig } from '../../../src/config/gatewayConfig.ts';
import { parseConfig } from '../../../src/config/loadConfig.ts';
import { maskUrls } from '../../../src/config/logger.ts';

type FieldSchema = typeof configFields;

function read(text: string, environment = {}): GatewayConfig {
  const result = parseConfig(text, environment);
  if ('problems' in result) throw new Error(JSON.stringify(result.problems));
  return result.config;
}

test.each([
  ['defaults', ''],
  [
    'other values',
    'protocol: {productName: Trino}\nrouting: {asyncTimeout: 1.5s, groups: {a: {strategy: weightedRandom}, constructor: {}}}\nserverConfig: {http-server.max-request-header-size: 1536B}\nserver: {trustedProxies: [10.0.0.0/8], adminPort: 0}',
  ],
  ['open access', 'authentication: none'],
  ['open access, by its key', 'authentication: {defaultType: none}'],
  ['open access, from the environment', 'authentication: ${ENV:WHO}\nserver: {allowedHosts: ["*.example.com"]}'],
  ['texts that look like something else', 'dataStore: {user: "0012"}\nrouting: {defaultRoutingGroup: "true"}'],
])('%s read back as they were', (_, text) => {
  const config = read(text, { WHO: 'none' });
  expect(read(effectiveYaml(config))).toEqual(config);
});

test('secrets are masked', () => {
  const text = effectiveYaml(
    read('dataStore: {password: "${ENV:P}", jdbcUrl: "jdbc:mysql://u:${ENV:P}@db/g?password=${ENV:P}"}', {
      P: 'hunter2',
    }),
  );
  expect(text).not.toContain('hunter2');
  expect(text).toContain('password: "***"');
  expect(text).toContain('jdbc:mysql://***@db/g?password=***');
});

function secretKeys(schema: FieldSchema = configFields, path = ''): readonly string[] {
  if (schema.secret === true) return [path];
  const children = { ...schema.properties, ...(schema.items && { '{name}': schema.items }) };
  return Object.entries(children).flatMap(([name, child]) => secretKeys(child, path === '' ? name : `${path}.${name}`));
}
test('the list of secret keys', () => expect(secretKeys()).toMatchSnapshot());

test('every key that sounds like a secret is one', () => {
  const sounding = /password|secret|keystore\.key$|truststore\.key$/i;
  const paths: string[] = [];
  const visit = (schema: FieldSchema, path: string): void => {
    const isValue = schema.properties === undefined && schema.items === undefined;
    if (sounding.test(path.split('.').slice(-2).join('.')) && isValue) paths.push(path);
    for (const [name, child] of Object.entries(schema.properties ?? {})) visit(child, `${path}.${name}`);
    if (schema.items !== undefined) visit(schema.items, `${path}.{name}`);
  };
  visit(configFields, '');
  expect(paths.map((path) => path.slice(1)).sort()).toEqual([...secretKeys()].sort());
});

test.each([
  ['jdbc:mysql://db/g', 'jdbc:mysql://db/g'],
  ['jdbc:sqlite:data/gateway.db', 'jdbc:sqlite:data/gateway.db'],
  ['https://user:pa:ss@host/x', 'https://***@host/x'],
  ['https://token@host/x', 'https://***@host/x'],
  ['https://u:p@ss@host/x', 'https://***@host/x'],
  ['https://u:a/b@host/x', 'https://***@host/x'],
  ['https://host/x@y:z', 'https://host/x@y:z'],
  ['https://[::1]:8080/x', 'https://[::1]:8080/x'],
  ['https://host/x?sig=a&b=c%20d&e', 'https://host/x?sig=***&b=***&***'],
  ['https://host/x#access_token=a', 'https://host/x#access_token=***'],
  ['see https://host/page#part, then go on', 'see https://host/page#part, then go on'],
  ['http://proxy-user:proxy-pass@proxy:3128', 'http://***@proxy:3128'],
  ['s3://KEY:SECRET@bucket/x', 's3://***@bucket/x'],
  ['ldap://h/dc=x?uid?sub?(cn=a)', 'ldap://h/dc=x?***?***?(cn=***'],
  ['jdbc:postgresql://u:p@h/d', 'jdbc:postgresql://***@h/d'],
  ['jdbc:postgresql://h/d?sslpassword=a&user=b', 'jdbc:postgresql://h/d?sslpassword=***&user=***'],
  ['jdbc:postgresql://h/d?password=a;b', 'jdbc:postgresql://h/d?password=***'],
  ['jdbc:sqlserver://h:1;user=a;password=b', 'jdbc:sqlserver://h:1;user=***;password=***'],
  ['jdbc:mysql://address=(host=h)(password=p)/d', 'jdbc:mysql://address=(host=***)(password=***)/d'],
  ['jdbc:oracle:thin:scott/tiger@//h:1/s', 'jdbc:oracle:thin:***@//h:1/s'],
  ['jdbc:h2:~/db;USER=sa;PASSWORD=x', 'jdbc:h2:~/db;USER=***;PASSWORD=***'],
  ['no URL: password=a', 'no URL: password=a'],
])('%s without its secrets', (text, shown) => expect(maskUrls(text)).toBe(shown));
