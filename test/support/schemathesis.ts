import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { requireComponent } from './components.ts';

const program = resolve('.cache/schemathesis/bin/schemathesis');

/** True when schemathesis is installed; otherwise the suite is skipped by name (with CI=true it fails). */
export const schemathesisAvailable = requireComponent(
  'schemathesis',
  existsSync(program),
  'python3 -m venv .cache/schemathesis && .cache/schemathesis/bin/pip install -r test/contract/requirements.txt',
);

/** What schemathesis said. */
export interface SchemathesisRun {
  /** 0: no failure. */
  readonly exitCode: number | null;
  readonly output: string;
}

/**
 * Calls every operation of an OpenAPI document with values that fit it and values that do not, and checks each answer.
 * @param options.seconds how long it goes on inventing calls
 * @param options.document file with the document; that of the gateway by default
 * @param options.basic name and password of every call
 */
export function runSchemathesis(
  url: string,
  options: { readonly seconds: number; readonly seed: number; readonly document?: string; readonly basic?: string },
): Promise<SchemathesisRun> {
  const args = [
    ...['--config-file', resolve('test/contract/schemathesis.toml'), 'run'],
    ...(options.document === undefined ? [`${url}/openapi.json`] : [options.document, '--url', url]),
    ...['--max-time', String(options.seconds), '--seed', String(options.seed), '--request-timeout', '15'],
    // One worker: CPython 3.11 confuses the recursion depths of threads that compile at once.
    ...['--workers', '1', '--continue-on-failure', '--warnings', 'off', '--no-color'],
    ...(options.basic === undefined ? [] : ['--auth', options.basic]),
  ];
  // It keeps notes of its findings in the working directory.
  const child = spawn(program, args, { cwd: resolve('.cache/schemathesis'), stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const timer = setTimeout(() => child.kill('SIGKILL'), (options.seconds + 60) * 1000);
  return new Promise((done, failed) => {
    child.once('error', failed);
    child.once('close', (exitCode) => {
      clearTimeout(timer);
      done({ exitCode, output });
    });
  });
}
