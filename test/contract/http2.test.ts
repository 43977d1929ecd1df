import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { startSimulatedEngine } from '../../demo/simulatedEngine.ts';
import { certificateFolder, hasOpenssl } from '../support/certificates.ts';
import { requireComponent } from '../support/components.ts';
import { startSecureGatewayProcess } from '../support/secureGatewayProcess.ts';

const program = [...(process.env.PATH ?? '').split(delimiter), join(homedir(), 'go/bin'), '.cache/bin']
  .map((folder) => join(folder, 'h2spec'))
  .find((file) => existsSync(file));
const available = requireComponent(
  'h2spec',
  program !== undefined,
  'put h2spec on the PATH (go install github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible)',
);

/** What the HTTP/2 library of Node.js (nghttp2) does differently from the strict reading of h2spec, and why it may. */
const knownDifferences = new Set([
  // Frames on closed streams are ignored: they may have been on the way when the stream was closed (RFC 9113 §5.1).
  'http2/5.1: closed: Sends a DATA frame after sending RST_STREAM frame',
  'http2/5.1: closed: Sends a HEADERS frame after sending RST_STREAM frame',
  'http2/5.1: closed: Sends a DATA frame',
  'http2/5.1: closed: Sends a HEADERS frame',
  'http2/5.1.1: Sends stream identifier that is numerically smaller than previous',
  // Priorities are deprecated and not read (RFC 9113 §5.3.2).
  'http2/5.3.1: Sends PRIORITY frame that depend on itself',
  'http2/6.3: Sends a PRIORITY frame with 0x0 stream identifier',
  // Stricter: the connection is closed.
  'http2/6.7: Sends a PING frame with ACK',
  'http2/6.9.1: Sends multiple WINDOW_UPDATE frames increasing the flow control window to above 2^31-1 on a stream',
]);

describe.skipIf(!available || !hasOpenssl)('HTTP/2', () => {
  test('conforms to RFC 9113 and HPACK, as h2spec checks them', async () => {
    const certificates = certificateFolder();
    const certificate = certificates.authority('h2spec').issue(['DNS:localhost']);
    const engine = await startSimulatedEngine({ name: 'a' });
    const gateway = await startSecureGatewayProcess(certificate, { a: engine.url });
    const folder = await mkdtemp(join(tmpdir(), 'h2spec-'));
    try {
      const report = join(folder, 'report.xml');
      const { port } = new URL(gateway.url);
      const target = ['--tls', '--insecure', '--strict', '--host', 'localhost', '--port', port, '--path', '/v1/info'];
      // The exit code says that there were differences; the report, which.
      const run = promisify(execFile)(program ?? '', [...target, '--junit-report', report], { timeout: 240_000 });
      await run.catch((error: { code?: unknown }) => expect(error.code, String(error)).toBe(1));
      const text = await readFile(report, 'utf8');
      const cases = [...text.matchAll(/<testcase package="([^"]*)" classname="([^"]*)"[^>]*>(.*?)<\/testcase>/gs)].map(
        ([, section, name, outcome]) => ({ name: `${section}: ${name}`, outcome: outcome ?? '' }),
      );
      expect(cases.length).toBeGreaterThan(140);
      const differences = cases.filter(({ name, outcome }) => outcome !== '' && !knownDifferences.has(name));
      expect(differences).toEqual([]);
    } finally {
      await gateway.stop();
      await engine.close();
      certificates.dispose();
      await rm(folder, { recursive: true, force: true });
    }
  });
});
