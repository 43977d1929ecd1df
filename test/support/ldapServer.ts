import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { requireComponent } from './components.ts';
import { freePort } from './freePort.ts';

const slapd = ['/usr/sbin/slapd', '/usr/lib/openldap/slapd', '/usr/libexec/slapd'].find((path) => existsSync(path));
const modules = ['/usr/lib/ldap', '/usr/lib/openldap', '/usr/lib/x86_64-linux-gnu/ldap'].find((path) =>
  existsSync(path),
);

/** True when slapd can be started; otherwise the suite is skipped by name (with CI=true it fails). */
export const ldapAvailable = requireComponent('slapd', slapd !== undefined, 'install the package slapd');

/** A real LDAP server with the tree that it was given. */
export interface LdapTestServer {
  readonly port: number;
  /** Port of ldaps; null without a certificate. */
  readonly tlsPort: number | null;
  readonly adminDn: string;
  readonly adminPassword: string;
  stop(): Promise<void>;
}

/**
 * Starts slapd on a free port with a database of its own below dc=example,dc=com.
 * @param ldif entries below that
 * @param tls PEM files of a certificate and its key: then StartTLS is offered, and ldaps on a port of its own
 * @param sizeLimit of the entries that a search gives, as slapd.conf has it
 */
export async function startLdapServer(
  ldif: string,
  tls?: { cert: string; key: string },
  sizeLimit?: string,
): Promise<LdapTestServer> {
  const folder = mkdtempSync(join(tmpdir(), 'slapd-'));
  const data = join(folder, 'data');
  mkdirSync(data);
  const adminDn = 'cn=admin,dc=example,dc=com';
  const adminPassword = 'admin-secret';
  const schema = '/etc/ldap/schema';
  const config = join(folder, 'slapd.conf');
  writeFileSync(
    config,
    [
      `include ${schema}/core.schema`,
      `include ${schema}/cosine.schema`,
      `include ${schema}/inetorgperson.schema`,
      `pidfile ${folder}/slapd.pid`,
      `modulepath ${modules}`,
      'moduleload back_mdb',
      ...(tls === undefined ? [] : [`TLSCertificateFile ${tls.cert}`, `TLSCertificateKeyFile ${tls.key}`]),
      ...(sizeLimit === undefined ? [] : [`sizelimit ${sizeLimit}`]),
      'database mdb',
      'suffix "dc=example,dc=com"',
      `rootdn "${adminDn}"`,
      `rootpw ${adminPassword}`,
      `directory ${data}`,
      'access to attrs=userPassword by anonymous auth by * none',
      'access to * by dn.exact="cn=reader,dc=example,dc=com" read by anonymous auth by * none',
      '',
    ].join('\n'),
  );
  const entries = join(folder, 'entries.ldif');
  writeFileSync(
    entries,
    `dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\ndn: cn=reader,dc=example,dc=com\nobjectClass: person\ncn: reader\nsn: reader\nuserPassword: reader-secret\n\n${ldif}`,
  );
  execFileSync(slapd ?? '', ['-T', 'add', '-q', '-f', config, '-l', entries]);
  const port = await freePort();
  const tlsPort = tls === undefined ? null : await freePort();
  const listeners = [`ldap://127.0.0.1:${port}`, ...(tlsPort === null ? [] : [`ldaps://127.0.0.1:${tlsPort}`])];
  const child = spawn(slapd ?? '', ['-f', config, '-h', listeners.join(' '), '-d', '0'], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  await reachable(port);
  return {
    port,
    tlsPort,
    adminDn,
    adminPassword,
    async stop() {
      child.kill();
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function reachable(port: number): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt++) {
    const socket = connect(port, '127.0.0.1');
    const open = await Promise.race([
      once(socket, 'connect').then(() => true),
      once(socket, 'error').then(() => false),
    ]).catch(() => false);
    socket.destroy();
    if (open) return;
    await delay(50);
  }
  throw new Error('slapd does not listen');
}
