import { describe, expect, it } from 'vitest';
import { parseJdbcUrl } from '../../../src/store/jdbcUrl.ts';

const target = (jdbcUrl: string | undefined, user?: string, password?: string) => {
  const parsed = parseJdbcUrl({ jdbcUrl, user, password });
  if ('problems' in parsed) throw new Error(parsed.problems.map((problem) => problem.message).join('; '));
  return parsed.target;
};

describe('JDBC URLs', () => {
  it.each([
    [undefined, { dialect: 'sqlite', file: 'data/gateway.db' }],
    ['jdbc:sqlite:/var/lib/gateway.db', { dialect: 'sqlite', file: '/var/lib/gateway.db' }],
    [
      'jdbc:mysql://db/gw',
      {
        dialect: 'mysql',
        hosts: [{ host: 'db', port: 3306 }],
        isPrimary: false,
        database: 'gw',
        tls: null,
      },
    ],
    [
      'jdbc:mariadb://[::1]:3307/gw?sslMode=verify-full',
      { hosts: [{ host: '::1', port: 3307 }], tls: { verify: true, verifyHost: true, ca: null } },
    ],
    ['jdbc:mysql://db/gw?useSSL=true&serverTimezone=UTC', { tls: { verify: false, verifyHost: false, ca: null } }],
    [
      'jdbc:postgresql://db:6432/gw?currentSchema=a,"B"&sslmode=require',
      { hosts: [{ host: 'db', port: 6432 }], schemas: ['a', 'B'], tls: { verify: false } },
    ],
    ['jdbc:postgresql:gw', { hosts: [{ host: 'localhost', port: 5432 }], database: 'gw' }],
    [
      'jdbc:postgresql://db/gw?user=u&password=p%26w&connectTimeout=3',
      { user: 'u', password: 'p&w', connectTimeoutMs: 3000 },
    ],
    ['jdbc:postgresql://db/gw?ssl=true', { tls: { verify: true, verifyHost: true } }],
  ])('reads %s', (url, expected) => {
    expect(target(url)).toMatchObject(expected);
  });

  const [a, b] = [{ host: 'a', port: 5432 }, { host: 'b', port: 6432 }] as const; // biome-ignore format: hosts
  const [c, d] = [{ host: 'c', port: 3306 }, { host: '::1', port: 3307 }] as const; // biome-ignore format: hosts

  it.each([
    ['jdbc:postgresql://a,b:6432/gw?hostRecheckSeconds=3', [a, b], false],
    ['jdbc:postgresql://a,b:6432/gw?targetServerType=primary', [a, b], true],
    ['jdbc:postgresql://a/gw?targetServerType=master', [a], true],
    ['jdbc:postgresql://a,b:6432/gw?targetServerType=preferPrimary', [a, b], true],
    ['jdbc:mysql://c,[::1]:3307/gw', [c, d], false],
    ['jdbc:mysql://address=(host=c)(port=3306),(host=[::1],port=3307)/gw?failOverReadOnly=false', [c, d], false],
    ['jdbc:mysql:loadbalance://c,[::1]:3307/gw', [c, d], false],
    ['jdbc:mysql:replication://c,[::1]:3307/gw', [c], false],
    ['jdbc:mariadb:sequential://c,[::1]:3307/gw', [c, d], false],
  ] as const)('reads hosts of %s', (url, hosts, isPrimary) => {
    expect(target(url)).toMatchObject({ hosts, isPrimary });
  });

  it('prefers the configured user and password', () => {
    expect(target('jdbc:mysql://db/gw?user=a&password=b', 'c', 'd')).toMatchObject({ user: 'c', password: 'd' });
  });

  it.each([
    ['postgres://db/gw', 'is not a JDBC URL'],
    ['jdbc:h2:mem:x', '"h2"'],
    ['jdbc:mysql:db/gw', '"//"'],
    ['jdbc:mysql://db', 'names no database'],
    ['jdbc:mysql://db:x/gw', 'port'],
    ['jdbc:postgresql://db:99999/gw', 'port'],
    ['jdbc:postgresql://a,b:x/gw', 'port'],
    ['jdbc:postgresql://a,b/gw?targetServerType=secondary', 'take no writes'],
    ['jdbc:postgresql://a,b/gw?targetServerType=best', 'unknown targetServerType'],
    ['jdbc:postgresql:loadbalance://a,b/gw', 'unknown word'],
    ['jdbc:mysql:nearest://a,b/gw', 'unknown word'],
    ['jdbc:mysql://address=(host=a)(password=secret),b/gw', 'for one host'],
    [`jdbc:mysql://${'a,'.repeat(40)}b/gw`, 'more than 32 hosts'],
    ['jdbc:postgresql://u:secret@db/gw', 'dataStore.user'],
    ['jdbc:postgresql://db/gw?sslmode=sometimes', 'sslmode'],
    ['jdbc:postgresql://db/gw?sslrootcert=/no/such/file', 'sslrootcert'],
    ['jdbc:mysql://db/gw?connectTimeout=soon', 'connectTimeout'],
    ['jdbc:sqlite:', 'names no file'],
  ])('refuses %s', (url, message) => {
    const parsed = parseJdbcUrl({ jdbcUrl: url });
    const problems = 'problems' in parsed ? parsed.problems : [];
    expect(problems.map((problem) => problem.message).join('; ')).toContain(message);
    expect(JSON.stringify(problems)).not.toContain('secret');
  });
});
