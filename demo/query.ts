/** A client in a few lines: `npm run -s query -- [--url U] [--user U] [--group G] [--header N:V]… SQL` prints rows as JSON lines, and the address of the query's page as error output. */
import { parseArgs } from 'node:util';

interface Page {
  readonly id: string;
  readonly nextUri?: string;
  readonly data?: readonly unknown[];
  readonly error?: { readonly message: string; readonly errorName: string };
  readonly updateType?: string;
}

const usage = `usage: npm run -s query -- [--url URL] [--user USER] [--group GROUP] [--header 'NAME: VALUE'] 'SELECT 1'`;

function readArguments() {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        url: { type: 'string', default: 'http://localhost:8080' },
        user: { type: 'string', default: 'me' },
        group: { type: 'string' },
        header: { type: 'string', multiple: true, default: [] },
      },
    });
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    console.error(usage);
    return process.exit(2);
  }
}

const { values, positionals } = readArguments();
const sql = positionals.join(' ');
if (sql === '') {
  console.error(usage);
  process.exit(2);
}

const headers = new Headers({ 'X-Engine-User': values.user });
if (values.group !== undefined) headers.set('X-Engine-Routing-Group', values.group);
for (const header of values.header) {
  const [name = '', ...value] = header.split(':');
  headers.append(name.trim(), value.join(':').trim());
}

async function ask(url: string, init: RequestInit): Promise<Page> {
  const response = await fetch(url, init);
  const body = await response.text();
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}: ${body}`);
  return JSON.parse(body) as Page;
}

try {
  let page = await ask(new URL('/v1/statement', values.url).href, { method: 'POST', headers, body: sql });
  for (;;) {
    for (const row of page.data ?? []) console.log(JSON.stringify(row));
    if (page.nextUri === undefined) console.error(`page: ${new URL(`/engine-gateway/queries/${page.id}`, values.url)}`);
    if (page.error !== undefined) throw new Error(`${page.error.errorName}: ${page.error.message}`);
    if (page.nextUri === undefined) break;
    page = await ask(page.nextUri, { headers });
  }
  if (page.updateType !== undefined) console.log(page.updateType);
} catch (error) {
  const cause = error instanceof Error && error.cause instanceof Error ? ` (${error.cause.message})` : '';
  console.error(`${error instanceof Error ? error.message : error}${cause}`);
  process.exitCode = 1;
}
