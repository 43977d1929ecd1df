import { copyFile, mkdir, readdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';

/**
 * Copies the demonstration's manifests to a directory of their own, as REST calls write into the files; files that are
 * there already stay.
 * @returns whether anything was copied
 */
export async function copyManifests(from: string, to: string): Promise<boolean> {
  await mkdir(to, { recursive: true });
  if ((await readdir(to)).some((name) => name.endsWith('.yaml'))) return false;
  for (const name of await readdir(from)) await copyFile(join(from, name), join(to, name));
  return true;
}

/**
 * Writes the addresses of the engines into the manifests, where they differ; all else stays as it is.
 * @param urls registry name to URL
 */
export async function setAddresses(directory: string, urls: ReadonlyMap<string, string>): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!name.endsWith('.yaml')) continue;
    const file = join(directory, name);
    const documents = parseAllDocuments(await readFile(file, 'utf8'));
    if (!Array.isArray(documents)) continue;
    let changed = false;
    for (const document of documents) {
      const url = urls.get(String(document.getIn(['metadata', 'name'])));
      if (url === undefined || document.get('kind') !== 'EngineCluster') continue;
      if (document.getIn(['spec', 'proxyTo']) === url) continue;
      document.setIn(['spec', 'proxyTo'], url);
      changed = true;
    }
    if (!changed) continue;
    await writeFile(`${file}.new`, documents.map(String).join(''));
    await rename(`${file}.new`, file);
  }
}
