import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach } from 'vitest';

/** A repository of each test in which a script of the project runs. */
export function scriptFolder(name: string) {
  const script = join(import.meta.dirname, '../../scripts', name);
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'scripts-'));
    execFileSync('git', ['init', '--quiet'], { cwd: folder });
  });
  afterEach(() => rmSync(folder, { recursive: true }));
  const pathOf = (path: string) => join(folder, path);
  return {
    pathOf,
    write(path: string, text: string): void {
      mkdirSync(dirname(pathOf(path)), { recursive: true });
      writeFileSync(pathOf(path), text);
    },
    run: (...args: readonly string[]) =>
      spawnSync(process.execPath, [script, ...args], { cwd: folder, encoding: 'utf8' }),
  };
}
