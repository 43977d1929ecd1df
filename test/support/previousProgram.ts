import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { requireComponent } from './components.ts';

const project = resolve(import.meta.dirname, '../..');

/** The last commit of the previous minor version; until there is a release, the one before the last change of the CRDs. */
const PREVIOUS = '2ea5a0cd50645d75c7aae585a400ed631acc7324';

/** Whether the history has the previous version; otherwise the suite is skipped by name (with CI=true it fails). */
export const previousAvailable = requireComponent(
  'the previous version',
  isInHistory(),
  `fetch the commit ${PREVIOUS}: a clone without history does not have it`,
);

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
