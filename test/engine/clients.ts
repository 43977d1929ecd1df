import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Distribution } from './distribution.ts';
import { commandLine, javaProgram } from './javaOptions.ts';
import type { SuiteQuery } from './queries.ts';
import { listQueries } from './trinoQueries.ts';

/** What a client saw of one query. */
export interface ClientOutcome {
  /** Position of the query in the list. */
  readonly index: number;
  /** Null where the client does not report it. */
  readonly queryId: string | null;
  readonly rows: number;
  /** Of the rows as the client prints them, sorted. */
  readonly digest: string;
  readonly error: string | null;
}

/** A real client: runs queries against a server and reports what it saw, in the order of the queries. */
export interface EngineClient {
  readonly name: string;
  /**
   * @param url of the JDBC driver, also several, separated by spaces: all queries run at each in turn
   * @param threads queries that run at once
   * @param onOutcome called as soon as a query has ended
   */
  run(
    url: string,
    queries: readonly SuiteQuery[],
    threads?: number,
    onOutcome?: (outcome: ClientOutcome) => void,
  ): Promise<readonly ClientOutcome[]>;
}

const programs = join(import.meta.dirname, 'programs');

/** The command line, the JDBC driver and the Python client. */
export function engineClients(distribution: Distribution): readonly EngineClient[] {
  const { java, python, cli } = distribution;
  return [
    new CommandLineClient(java, cli),
    new ProgramClient('JDBC driver', java, javaProgram(distribution, 'Query')),
    new ProgramClient('Python client', python, [join(programs, 'query.py')]),
  ];
}

/** A program of `programs/`, which takes a file of queries and prints a JSON line a query. */
class ProgramClient implements EngineClient {
  readonly name: string;
  readonly #program: string;
  readonly #args: readonly string[];

  constructor(name: string, program: string, args: readonly string[]) {
    this.name = name;
    this.#program = program;
    this.#args = args;
  }

  async run(
    url: string,
    queries: readonly SuiteQuery[],
    threads = 1,
    onOutcome: (outcome: ClientOutcome) => void = () => {},
  ): Promise<readonly ClientOutcome[]> {
    const [first = '', ...others] = url.split(' ');
    const folder = await mkdtemp(join(tmpdir(), 'client-'));
    const file = join(folder, 'queries.txt');
    const lines = queries.map(({ kind, sql }) => `${kind === 'cancelled' ? 'cancel' : 'run'} ${sql}\n`);
    await writeFile(file, lines.join(''));
    try {
      const child = spawn(this.#program, [...this.#args, first, file, String(threads), ...others], {
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const outcomes: ClientOutcome[] = [];
      if (child.stdout === null) throw new Error('the output is piped');
      createInterface({ input: child.stdout }).on('line', (line) => {
        const outcome = JSON.parse(line) as ClientOutcome;
        outcomes.push(outcome);
        onOutcome(outcome);
      });
      const { code, stderr } = await ended(child);
      if (code !== 0 || outcomes.length !== queries.length * (1 + others.length)) {
        throw new Error(`the ${this.name} ended with ${code} after ${outcomes.length} queries: ${stderr}`);
      }
      return outcomes.toSorted((a, b) => a.index - b.index);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
}

/** Query that the command line runs after each but the last of a process: its row ends the rows of the one before. */
export const markQuery = "SELECT 'end of a query'";
const MARK_ROW = 'end of a query';

/** A query with its position. */
type Numbered = readonly [index: number, query: SuiteQuery];

/**
 * Trino's command line. Queries that succeed run in one process, with `markQuery` between them: to start one takes more processor
 * time than to run its queries. Each other one has a process of its own; a running query is cancelled by SIGINT.
 */
class CommandLineClient implements EngineClient {
  readonly name = 'command line';
  readonly #java: string;
  readonly #cli: string;

  constructor(java: string, cli: string) {
    this.#java = java;
    this.#cli = cli;
  }

  async run(
    url: string,
    queries: readonly SuiteQuery[],
    threads = 1,
    onOutcome: (outcome: ClientOutcome) => void = () => {},
  ): Promise<readonly ClientOutcome[]> {
    const outcomes: ClientOutcome[] = [];
    const isAlone = ([, { kind }]: Numbered) => kind === 'failing' || kind === 'cancelled';
    const numbered = [...queries.entries()];
    const together = numbered.filter((each) => !isAlone(each));
    const alone = numbered.filter(isAlone).map((each) => [each]);
    const left = [...(together.length === 0 ? [] : [together]), ...alone].values();
    const work = async () => {
      for (const run of left) {
        for (const outcome of await this.#run(url, run)) {
          outcomes.push(outcome);
          onOutcome(outcome);
        }
      }
    };
    await Promise.all(Array.from({ length: threads }, work));
    return outcomes.toSorted((a, b) => a.index - b.index);
  }

  async #run(url: string, queries: readonly Numbered[]): Promise<readonly ClientOutcome[]> {
    const source = `suite-cli-${queries[0]?.[0]}`;
    const sql = queries.map(([, query]) => query.sql).join(`;\n${markQuery};\n`);
    const child = spawn(
      this.#java,
      [
        ...commandLine({ cli: this.#cli }),
        ...['--server', url, '--user', 'cli'],
        ...['--source', source, '--timezone', 'UTC', '--output-format', 'TSV', '--execute', sql],
      ],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    const stdout: Buffer[] = [];
    child.stdout?.on('data', (chunk: Buffer) => stdout.push(chunk));
    const end = ended(child);
    if (queries[0]?.[1].kind === 'cancelled') {
      await waitUntilRunning(url, source, end);
      child.kill('SIGINT');
    }
    const { code, stderr } = await end;
    const parts: string[][] = [[]];
    for (const row of Buffer.concat(stdout).toString('utf8').split('\n').slice(0, -1)) {
      if (row === MARK_ROW) parts.push([]);
      else parts.at(-1)?.push(row);
    }
    if (code === 0 && parts.length !== queries.length) throw new Error(`${parts.length} results of ${queries.length}`);
    return queries.map(([index], position) => {
      const rows = parts[position] ?? [];
      const error = code === 0 ? null : stderr;
      return { index, queryId: null, rows: rows.length, digest: digestOf(rows), error };
    });
  }
}

function ended(child: ChildProcess): Promise<{ code: number | string | null; stderr: string }> {
  let stderr = '';
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code: code ?? signal, stderr }));
  });
}

/** Waits until a query of that source is in state RUNNING on a cluster behind the address. */
async function waitUntilRunning(url: string, source: string, end: Promise<unknown>): Promise<void> {
  let over = false;
  const stop = () => {
    over = true;
  };
  end.then(stop, stop);
  while (!over) {
    // Behind a gateway each call may reach another cluster: sooner or later it is the right one.
    if ((await listQueries({ url }, 'RUNNING')).some(({ session }) => session.source === source)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

function digestOf(rows: readonly string[]): string {
  const hash = createHash('sha256');
  for (const row of rows.toSorted()) hash.update(`${row}\n`);
  return hash.digest('hex');
}
