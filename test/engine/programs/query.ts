/**
 * Runs queries with trino-client: node query.ts URL FILE
 * FILE has one query a line, a word (run) before it. Prints a JSON line a query, as Query.java does, with "ids": those that
 * the client shows its user, each once.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import process from 'node:process';
import { BasicAuth, Trino } from 'trino-client';

const [server = '', file = ''] = process.argv.slice(2);
const trino = Trino.create({ server, source: 'suite-javascript', auth: new BasicAuth('javascript') });
const lines = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '');
for (const [index, line] of lines.entries()) {
  const ids = new Set<string>();
  const rows: string[] = [];
  let error: string | null = null;
  for await (const page of await trino.query(line.slice(line.indexOf(' ') + 1))) {
    ids.add(page.id);
    for (const row of page.data ?? []) rows.push(JSON.stringify(row));
    error = page.error?.message ?? error;
  }
  const digest = createHash('sha256').update(rows.sort().join('\n')).digest('hex');
  console.log(JSON.stringify({ index, ids: [...ids], rows: rows.length, digest, error }));
}
