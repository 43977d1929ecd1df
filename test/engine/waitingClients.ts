/**
 * Clients that only the test of the queue needs besides those of `clients.ts`, from their package registries, kept under
 * `.cache/`; each runs a query to its end and says what it showed its user.
 */
import { type ExecFileException, execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { installGoSuite } from '../clients/installation.ts';
import { cache, type Distribution, hashOf, installPython, makeWorkFolder, moveIntoPlace, run } from './distribution.ts';
import { commandLine, javaProgram } from './javaOptions.ts';

const programs = join(import.meta.dirname, 'programs');
/** Later versions of dbt-core download a program from another place than the registry while they are installed. */
const DBT = ['dbt-core==1.11.16', 'dbt-trino==1.11.0'];
const INSTALL_MILLIS = 10 * 60_000;
const RUN_MILLIS = 180_000;

/** What a client left behind. */
export interface ClientEnd {
  readonly code: number | string;
  /** What it printed, without ids and times. */
  readonly output: string;
  /** Its error output. */
  readonly errors: string;
  /** Ids that it shows its user, where it does. */
  readonly ids: readonly string[];
}

/** A client that runs the queries of a file, one a line. */
export interface WaitingClient {
  readonly name: string;
  /** How the start of its `source` reads at the engine. */
  readonly source: string;
  /** @param folder of its own for what it writes */
  run(url: string, file: string, folder: string): Promise<ClientEnd>;
}

/** The programs that are not part of a distribution. */
export interface MorePrograms {
  /** Program of `programs/go`. */
  readonly go: string;
  /** Program `dbt`. */
  readonly dbt: string;
}

/** Installs and builds what is not in the cache yet. */
export async function installMorePrograms(): Promise<MorePrograms> {
  const [go, python] = await Promise.all([buildGoProgram(), installPython(DBT)]);
  return { go, dbt: join(dirname(python), 'dbt') };
}

/** Builds the program within the client's own module, whose dependencies are its own. */
async function buildGoProgram(): Promise<string> {
  const source = join(programs, 'go/query.go');
  const program = join(cache, `go-query-${hashOf(await readFile(source, 'utf8'))}`);
  if (existsSync(program)) return program;
  const { folder } = await installGoSuite();
  const work = await makeWorkFolder('go-query');
  const copy = join(work, 'module');
  // Folders of the module cache may not be written.
  await mkdir(copy);
  for (const name of await readdir(join(folder, '..'))) {
    await cp(join(folder, '..', name), join(copy, name), { recursive: true });
  }
  await chmod(copy, 0o755);
  await mkdir(join(copy, 'query'));
  await cp(source, join(copy, 'query/query.go'));
  await run('go', ['build', '-o', join(work, 'query'), './query'], { cwd: copy, timeout: INSTALL_MILLIS });
  await moveIntoPlace(join(work, 'query'), program);
  await run('chmod', ['-R', 'u+w', work]);
  await rm(work, { recursive: true });
  return program;
}

/** The command line, JDBC, Python, Go, JavaScript and dbt. */
export function waitingClients(distribution: Distribution, { go, dbt }: MorePrograms): readonly WaitingClient[] {
  const { java, python } = distribution;
  const program = (name: string, source: string, command: string, args: readonly string[]): WaitingClient => ({
    name,
    source,
    run: async (url, file) => {
      const { code, stdout, errors } = await ended(command, [...args, url, file, '1']);
      return { code, errors, ...withoutIds(stdout) };
    },
  });
  return [
    {
      name: 'command line',
      source: 'suite-cli',
      run: async (url, file) => {
        const options = ['--server', url, '--user', 'cli', '--source', 'suite-cli', '--output-format', 'TSV'];
        const text = join(file, '../queries.sql');
        const queries = (await readFile(file, 'utf8')).split('\n').filter((line) => line !== '');
        await writeFile(text, queries.map((line) => `${line.slice(line.indexOf(' ') + 1)};\n`).join(''));
        const { code, stdout, errors } = await ended(java, [...commandLine(distribution), ...options, '--file', text]);
        const rows = stdout.split('\n').slice(0, -1);
        const digest = createHash('sha256').update(rows.toSorted().join('\n')).digest('hex');
        // Its library says at each start, with the time, that the test is no terminal.
        const own = errors.replace(/^.*org\.jline.*\nWARNING: Unable to create a system terminal.*\n/, '');
        return { code, output: `${rows.length} rows ${digest}`, errors: own, ids: [] };
      },
    },
    program('JDBC driver', 'suite-jdbc', java, javaProgram(distribution, 'Query')),
    program('Python client', 'suite-python', python, [join(programs, 'query.py')]),
    program('Go client', 'suite-go', go, []),
    program('JavaScript client', 'suite-javascript', process.execPath, [join(programs, 'query.ts')]),
    {
      name: 'dbt',
      source: 'dbt',
      run: async (url, _file, folder) => {
        await cp(join(programs, 'dbt'), folder, { recursive: true });
        const { code, stdout, errors } = await ended(
          dbt,
          [
            '--no-send-anonymous-usage-stats',
            '--no-version-check',
            ...'--log-format json --log-level warn run'.split(' '),
          ],
          { cwd: folder, env: { ...process.env, TRINO_PORT: new URL(url).port, DBT_PROFILES_DIR: folder } },
        );
        const file = join(folder, 'target/run_results.json');
        if (!existsSync(file)) throw new Error(`dbt ended with ${code} before it ran a model: ${stdout}${errors}`);
        type Result = Readonly<Record<'unique_id' | 'status' | 'message', string>>;
        const { results } = JSON.parse(await readFile(file, 'utf8')) as { readonly results: readonly Result[] };
        const models = results.map(({ unique_id, status, message }) => `${unique_id} ${status} ${message}`);
        return { code, output: models.toSorted().join('\n'), errors: messagesOf(stdout) + errors, ids: [] };
      },
    },
  ];
}

/** Runs a query by `dbt show`, which writes nothing. @param folder of its own */
export async function showByDbt({ dbt }: MorePrograms, url: string, sql: string, folder: string): Promise<ClientEnd> {
  await cp(join(programs, 'dbt'), folder, { recursive: true });
  const args = ['--no-send-anonymous-usage-stats', '--no-version-check', '--quiet', 'show', '--output', 'json'];
  const env = { ...process.env, TRINO_PORT: new URL(url).port, DBT_PROFILES_DIR: folder };
  const { code, stdout, errors } = await ended(dbt, [...args, '--inline', sql], { cwd: folder, env });
  return { code, output: stdout, errors, ids: [] };
}

/** Warnings and errors of dbt's log. */
function messagesOf(log: string): string {
  const lines = log.split('\n').filter((line) => line !== '');
  return lines.map((line) => (JSON.parse(line) as { readonly info: { readonly msg: string } }).info.msg).join('\n');
}

/** The lines of JSON that a program printed, without the ids in them. */
function withoutIds(stdout: string): Pick<ClientEnd, 'output' | 'ids'> {
  const lines = stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as { readonly queryId?: string | null; readonly ids?: readonly string[] });
  const ids = lines.flatMap(({ queryId, ids: several }) => several ?? (queryId == null ? [] : [queryId]));
  return { ids, output: lines.map((line) => JSON.stringify({ ...line, queryId: null, ids: null })).join('\n') };
}

function ended(
  program: string,
  args: readonly string[],
  options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<{ readonly code: number | string; readonly stdout: string; readonly errors: string }> {
  return new Promise((resolve) => {
    const limits = { timeout: RUN_MILLIS, maxBuffer: 1 << 24 };
    execFile(program, args, { ...limits, ...options }, (error: ExecFileException | null, stdout, stderr) => {
      resolve({ code: error === null ? 0 : (error.code ?? error.signal ?? 'unknown'), stdout, errors: stderr });
    });
  });
}
