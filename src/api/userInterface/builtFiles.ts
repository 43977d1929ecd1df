import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, gzip } from 'node:zlib';
import type { ProductNames } from '../../model/names.ts';
import { version } from '../../model/version.ts';

export interface BuiltFile {
  readonly type: string;
  readonly body: Buffer;
  /** The same, compressed; null if that would not help. */
  readonly brotli: Buffer | null;
  readonly gzip: Buffer | null;
  /** Strong entity tag of the content (RFC 9110 §8.8.3), without its quotes. */
  readonly tag: string;
  /** Its name carries a digest of its content: it never changes. */
  readonly immutable: boolean;
}

/** The built user interface: the page, and the files it loads by their path below the gateway's. */
export interface BuiltUserInterface {
  readonly page: BuiltFile;
  readonly files: ReadonlyMap<string, BuiltFile>;
}

const types: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  png: 'image/png',
  svg: 'image/svg+xml',
  webp: 'image/webp',
  woff2: 'font/woff2',
};

/**
 * Reads what `scripts/buildUi.ts` has built, all of it: it is small, and what is in memory cannot be a wrong path.
 * @param sharesOrigin whether pages of engines are served at the same origin, of which administrators are warned
 * @returns null when nothing is built there
 */
export async function readBuiltFiles(
  directory: string,
  names: ProductNames,
  sharesOrigin = false,
): Promise<BuiltUserInterface | null> {
  const template = await readFile(join(directory, 'index.html'), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
    throw error;
  });
  if (template === null) return null;
  const entries = (await readdir(directory, { recursive: true, withFileTypes: true })).filter((each) => each.isFile());
  const all = new Map<string, Buffer>();
  for (const { parentPath, name } of entries) {
    const file = join(parentPath, name);
    all.set(relative(directory, file).replaceAll(sep, '/'), await readFile(file));
  }
  const files = new Map<string, BuiltFile>();
  for (const [path, body] of all) {
    const type = types[path.slice(path.lastIndexOf('.') + 1)];
    if (type === undefined || path === 'index.html') continue;
    files.set(path, {
      type,
      body,
      brotli: all.get(`${path}.br`) ?? null,
      gzip: all.get(`${path}.gz`) ?? null,
      tag: digest(body),
      immutable: path.startsWith('assets/'),
    });
  }
  return { page: await pageOf(template, names, sharesOrigin), files };
}

/** The page with what depends on the configuration: the path it lies under, the product's name, and the warning. */
async function pageOf(template: string, names: ProductNames, sharesOrigin: boolean): Promise<BuiltFile> {
  const html = template
    .replaceAll('__BASE__', `${names.gatewayPath}/`)
    .replaceAll('__PRODUCT__', names.product)
    .replaceAll('__VERSION__', version)
    .replaceAll('__SHARED_ORIGIN__', String(sharesOrigin));
  const body = Buffer.from(html);
  return {
    type: types.html as string,
    body,
    brotli: await promisify(brotliCompress)(body),
    gzip: await promisify(gzip)(body),
    tag: digest(body),
    immutable: false,
  };
}

function digest(body: Buffer): string {
  return createHash('sha256').update(body).digest('base64url').slice(0, 27);
}
