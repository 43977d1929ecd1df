import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { certificateFolder, type TestCertificate } from '../../test/support/certificates.ts';
import { type Measured, measure, print, printHead, type Target, WARM_UP_SECONDS } from './measure.ts';
import { startNginxProxy } from './nginx.ts';
import { startServe } from './serveProcess.ts';

/** What is measured over TLS. */
export interface TlsOptions {
  readonly directory: string;
  readonly cluster: string;
  readonly database: () => Promise<{ readonly jdbcUrl: string; readonly user?: string; readonly password?: string }>;
  /** Path of a follow-up. */
  readonly followUp: string;
  /** wrk's script of a submission. */
  readonly script: string;
  readonly seconds: number;
  readonly rounds: number;
}

/**
 * Measures `engine-gateway serve` beside nginx, clients of both over TLS on connections that they keep, and prints what
 * TLS costs each beside clear text of the same round. Nothing is set as to be reached.
 * @returns 0; 1 where an answer failed
 */
export async function measureTls(options: TlsOptions): Promise<number> {
  const { directory, cluster, followUp, script, seconds, rounds } = options;
  const folder = certificateFolder();
  const stops: (() => Promise<unknown>)[] = [async () => folder.dispose()];
  try {
    const certificate = folder.authority('bench').issue(['DNS:localhost', 'IP:127.0.0.1']);
    const nginx = await startNginxProxy(inFolder(directory, 'tls-nginx'), cluster, certificate.file);
    stops.push(nginx.stop);
    const gateway = await startServe(
      inFolder(directory, 'tls-gateway'),
      cluster,
      await options.database(),
      gatewayConfig(certificate),
    );
    stops.push(gateway.stop);
    const targets = { nginx, gateway };
    let failed = 0;
    for (const [kind, target, used] of [
      ['follow-up', followUp, null],
      ['submission', '/v1/statement', script],
    ] as const) {
      const load = async (name: keyof typeof targets, isTls: boolean, duration: number) => {
        const measured = await measure(isTls ? overTls(targets[name]) : targets[name], target, duration, used);
        failed += measured.failed;
        return measured;
      };
      for (const isTls of [false, true]) await load('gateway', isTls, WARM_UP_SECONDS);
      printHead();
      for (const name of ['nginx', 'gateway'] as const) {
        const measured: { clear: Measured; tls: Measured }[] = [];
        for (let round = 0; round < rounds; round++) {
          measured.push({ clear: await load(name, false, seconds), tls: await load(name, true, seconds) });
        }
        const middle = measured.sort((a, b) => a.tls.cpu - b.tls.cpu)[(rounds - 1) >> 1];
        if (middle === undefined) return 2;
        print(kind, name, middle.clear);
        print(kind, `${name}, TLS`, middle.tls);
        console.log(`${name}: TLS costs ${(middle.tls.cpu - middle.clear.cpu).toFixed(1)} µs CPU a ${kind}\n`);
      }
    }
    return failed === 0 ? 0 : 1;
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

function gatewayConfig({ file }: TestCertificate) {
  return {
    serverConfig: {
      'http-server.https.enabled': true,
      'http-server.https.port': 0,
      'http-server.https.keystore.path': file,
    },
  };
}

function overTls(target: Target & { readonly tlsUrl: string | null }): Target {
  if (target.tlsUrl === null) throw new Error(`${target.url} has no TLS`);
  return { ...target, url: target.tlsUrl };
}

function inFolder(directory: string, name: string): string {
  const folder = path.join(directory, name);
  mkdirSync(folder);
  return folder;
}
