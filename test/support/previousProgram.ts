import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';

const project = resolve(import.meta.dirname, '../..');

/** The last commit of the previous minor version; until there is a release, the one before the last change of the CRDs. */
const PREVIOUS = 'e58feabd1ea8de20ad18037ccd09338cf63facaf';

/**
 * Whether the history has the previous version. A clone without it, such as a shallow one, cannot install it like a component: the
 * suite says so and is skipped, there with CI=true too.
 */
export const previousAvailable = isInHistory();
if (!previousAvailable)
  console.warn(`skipped: this clone lacks the previous version: git fetch --unshallow, for ${PREVIOUS}`);

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

function isInHistory(): boolean {
  try {
    execFileSync('git', ['cat-file', '-e', `${PREVIOUS}^{commit}`], { cwd: project, stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
