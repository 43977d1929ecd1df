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
    ['jdbc:mysql://db/gw', { dialect: 'mysql', host: 'db', port: 3306, database: 'gw', tls: null }],
    [
      'jdbc:mariadb://[::1]:3307/gw?sslMode=verify-full',
      { host: '::1', port: 3307, tls: { verify: true, verifyHost: true, ca: null } },
    ],
    ['jdbc:mysql://db/gw?useSSL=true&serverTimezone=UTC', { tls: { verify: false, verifyHost: false, ca: null } }],
    [
      'jdbc:postgresql://db:6432/gw?currentSchema=a,"B"&sslmode=require',
      { port: 6432, schemas: ['a', 'B'], tls: { verify: false } },
    ],
    ['jdbc:postgresql:gw', { host: 'localhost', port: 5432, database: 'gw' }],
    [
      'jdbc:postgresql://db/gw?user=u&password=p%26w&connectTimeout=3',
      { user: 'u', password: 'p&w', connectTimeoutMs: 3000 },
    ],
    ['jdbc:postgresql://db/gw?ssl=true', { tls: { verify: true, verifyHost: true } }],
  ])('reads %s', (url, expected) => {
    expect(target(url)).toMatchObject(expected);
  });

  it('prefers the configured user and password', () => {
    expect(target('jdbc:mysql://db/gw?user=a&password=b', 'c', 'd')).toMatchObject({ user: 'c', password: 'd' });
  });

  it.each([
    ['postgres://db/gw', 'is not a JDBC URL'],
    ['jdbc:oracle:thin:@db:1521/gw', 'Oracle'],
    ['jdbc:h2:mem:x', '"h2"'],
    ['jdbc:mysql:db/gw', '"//"'],
    ['jdbc:mysql://db', 'names no database'],
    ['jdbc:mysql://db:x/gw', 'port'],
    ['jdbc:postgresql://db:99999/gw', 'port'],
    ['jdbc:postgresql://a,b/gw', 'several hosts'],
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
