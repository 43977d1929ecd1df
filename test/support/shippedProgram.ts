import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { execForm, parseDockerfile } from '../packaging/dockerfile.ts';

const project = resolve(import.meta.dirname, '../..');

/** Builds the program into `dist/server`, unless what is there was built from these sources. */
export async function buildShippedProgram(): Promise<void> {
  const build = join(project, 'scripts/buildServer.ts');
  await promisify(execFile)(process.execPath, [build, '--if-stale'], { cwd: project });
}

/** The arguments of Node with which the image starts the gateway (the Dockerfile's ENTRYPOINT), for `dist/server` here. */
export async function shippedProgram(): Promise<readonly string[]> {
  const stages = parseDockerfile(await readFile(join(project, 'Dockerfile'), 'utf8'));
  const entry = stages.at(-1)?.instructions.find(({ name }) => name === 'ENTRYPOINT');
  if (entry === undefined) throw new Error('the Dockerfile has no ENTRYPOINT');
  const [, ...args] = execForm(entry.text);
  return args.map((arg) => (arg.startsWith('/app/') ? join(project, arg.slice('/app/'.length)) : arg));
}
