import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { API_VERSION } from '../../src/model/resource.ts';

const project = resolve(import.meta.dirname, '../..');

/** The last commit of the previous minor version; until there is a release, the one before the last change of the CRDs. */
const PREVIOUS = 'aeeb9e58bc11a907f33fc48c0e8985e17fcb7a51';

const obstacle = obstacleOfPrevious();
/**
 * True if the history has the previous version, with the present version of the resource API: others were not released. A clone
 * without it, such as a shallow one, cannot install it like a component: the suite is skipped with the reason, with CI=true too.
 */
export const previousAvailable = obstacle === null;
if (obstacle !== null) console.warn(`skipped: ${obstacle}`);

/** The sources of the previous version, with the packages of this one: a folder like that of the project. */
export async function previousVersion(): Promise<string> {
  const folder = join(project, '.cache', 'previous', PREVIOUS);
  if (existsSync(folder)) return folder;
  await mkdir(join(project, '.cache', 'previous'), { recursive: true });
  // Whole or not at all: files of the suite may do this at once.
  const fresh = await mkdtemp(`${folder}-`);
  const paths = ['src', 'crds', 'package.json'];
  const archive = execFileSync('git', ['archive', PREVIOUS, ...paths], { cwd: project, maxBuffer: 1 << 28 });
  execFileSync('tar', ['-x', '-C', fresh], { input: archive });
  await symlink(join(project, 'node_modules'), join(fresh, 'node_modules'));
  await rename(fresh, folder).catch(() => rm(fresh, { recursive: true }));
  return folder;
}

function obstacleOfPrevious(): string | null {
  try {
    const source = execFileSync('git', ['show', `${PREVIOUS}:src/model/resource.ts`], {
      cwd: project,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    return source.includes(`API_VERSION = '${API_VERSION}'`)
      ? null
      : `the previous version ${PREVIOUS} does not have resources of the version ${API_VERSION}`;
  } catch {
    return `this clone lacks the previous version: git fetch --unshallow, for ${PREVIOUS}`;
  }
}
