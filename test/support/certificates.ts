import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { requireComponent } from './components.ts';

/** Whether openssl is there, which makes the certificates of tests. */
export const hasOpenssl = requireComponent(
  'openssl',
  spawnSync('openssl', ['version']).status === 0,
  'install the package openssl',
);

/** A certificate with its key, as text and as files. */
export interface TestCertificate {
  readonly cert: string;
  readonly key: string;
  /** PEM file of chain and key. */
  readonly file: string;
  /** The same as PKCS#12; the password is `changeit`. */
  readonly pkcs12: () => string;
}

/** An authority that issues certificates, in a folder of its own. */
export interface TestAuthority {
  readonly cert: string;
  /** PEM file of the authority's certificate. */
  readonly file: string;
  /** @param names subject alternative names, e.g. `DNS:localhost`; the first is the subject too */
  issue(names: readonly string[], days?: number): TestCertificate;
  /**
   * Issues a client's certificate.
   * @param subject as openssl has it, e.g. `/O=Example/CN=ann`
   * @param names subject alternative names; none by default
   * @param days validity; negative: it has expired
   */
  issueTo(subject: string, names?: readonly string[], days?: number): TestCertificate;
}

/** A folder with authorities; `dispose` removes it. */
export function certificateFolder(): { path: string; authority(name: string): TestAuthority; dispose(): void } {
  const path = mkdtempSync(join(tmpdir(), 'eg-certificates-'));
  return {
    path,
    authority: (name) => makeAuthority(path, name),
    dispose: () => rmSync(path, { recursive: true, force: true }),
  };
}

/** Returns a certificate of `localhost` and 127.0.0.1 with its authority, which issues no others; nothing without openssl. */
export function localCertificate(): { readonly authority: TestAuthority; readonly certificate: TestCertificate } {
  if (!hasOpenssl) return {} as never;
  const folder = certificateFolder();
  try {
    const authority = folder.authority('local');
    return { authority, certificate: authority.issue(['DNS:localhost', 'IP:127.0.0.1']) };
  } finally {
    folder.dispose();
  }
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];

function openssl(...args: string[]): void {
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}

function makeAuthority(folder: string, name: string): TestAuthority {
  const file = join(folder, `${name}.crt`);
  const keyFile = join(folder, `${name}.key`);
  openssl('req', '-x509', ...newKey, '-keyout', keyFile, '-out', file, '-days', '30', '-subj', `/CN=${name}`);
  let count = 0;
  return {
    cert: readFileSync(file, 'utf8'),
    file,
    issue: (names, days) => issueTo(`/CN=${(names[0] ?? name).replace(/^[A-Za-z]+:/, '')}`, names, days),
    issueTo,
  };

  function issueTo(subject: string, names: readonly string[] = [], days = 30): TestCertificate {
    const base = join(folder, `${name}-${++count}`);
    const [request, certFile, ownKey, extensions] = ['csr', 'crt', 'key', 'ext'].map((end) => `${base}.${end}`) as [
      string,
      string,
      string,
      string,
    ];
    writeFileSync(
      extensions,
      names.length === 0 ? 'basicConstraints=CA:FALSE\n' : `subjectAltName=${names.join(',')}\n`,
    );
    openssl('req', '-new', '-utf8', ...newKey, '-keyout', ownKey, '-out', request, '-subj', subject);
    openssl(
      ...['x509', '-req', '-in', request, '-CA', file, '-CAkey', keyFile, '-CAcreateserial'],
      ...['-days', String(days), '-extfile', extensions, '-out', certFile],
    );
    const cert = readFileSync(certFile, 'utf8');
    const key = readFileSync(ownKey, 'utf8');
    const both = `${base}.pem`;
    writeFileSync(both, cert + key);
    return {
      cert,
      key,
      file: both,
      pkcs12() {
        const out = `${base}.p12`;
        openssl('pkcs12', '-export', '-in', both, '-out', out, '-passout', 'pass:changeit');
        return out;
      },
    };
  }
}
