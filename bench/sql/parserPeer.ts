import { spawn } from 'node:child_process';
import { access, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));

/** Runs a program; gives its standard output, throws with its standard error when it fails. */
function run(program: string, args: readonly string[], input?: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd: here, stdio: ['pipe', 'pipe', 'pipe'] });
    let output = '';
    let errors = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors += text;
    });
    child.on('error', reject);
    child.on('close', (code) => {
      if (code === 0) resolve(output);
      else reject(new Error(`${program} ended with ${code}: ${errors.slice(-1000)}${output.slice(-1000)}`));
    });
    child.stdin.end(input);
  });
}

/** A JDK new enough for the parser's classes: BENCH_JAVA_HOME, JAVA_HOME, those in /usr/lib/jvm, or the one on the path. */
async function javaHome(): Promise<string | null> {
  const installed = await readdir('/usr/lib/jvm').catch(() => []);
  const homes = [
    process.env.BENCH_JAVA_HOME,
    process.env.JAVA_HOME,
    ...installed.sort().map((name) => `/usr/lib/jvm/${name}`),
  ];
  for (const home of homes) {
    if (home === undefined) continue;
    const javac = join(home, 'bin', 'javac');
    const found = await access(javac).then(
      () => true,
      () => false,
    );
    if (!found) continue;
    const version = await run(javac, ['-version']).catch(() => '');
    if (Number(/javac (\d+)/.exec(version)?.[1] ?? 0) >= 24) return home;
  }
  return null;
}

/** How long each group of texts is timed. */
export interface PeerTiming {
  readonly warmSeconds: number;
  readonly roundSeconds: number;
  readonly rounds: number;
}

/**
 * Mean microseconds a text that the engine's own parser takes, by group. Needs Maven and a JDK of at least 24.
 * @returns null with the reason when one of them is missing
 */
export async function timeParserPeer(
  groups: ReadonlyMap<string, readonly string[]>,
  timing: PeerTiming,
): Promise<ReadonlyMap<string, number> | { readonly missing: string }> {
  const home = await javaHome();
  if (home === null) return { missing: 'no JDK 24 or newer found; set BENCH_JAVA_HOME' };
  const work = await mkdtemp(join(tmpdir(), 'parser-peer-'));
  try {
    const jars = join(work, 'jars');
    try {
      await run('mvn', ['-q', '-B', 'dependency:copy-dependencies', `-DoutputDirectory=${jars}`]);
    } catch (error) {
      return { missing: `Maven cannot fetch io.trino:trino-parser: ${(error as Error).message.slice(0, 300)}` };
    }
    const classPath = `${jars}/*:${work}`;
    await run(join(home, 'bin', 'javac'), ['-cp', classPath, '-d', work, 'ParserPeer.java']);
    const lines: string[] = [];
    for (const [group, texts] of groups) {
      for (const text of texts) lines.push(`${group} ${Buffer.from(text).toString('base64')}`);
    }
    const output = await run(
      join(home, 'bin', 'java'),
      [
        '-Xss16m',
        '-cp',
        classPath,
        'ParserPeer',
        ...[timing.warmSeconds, timing.roundSeconds, timing.rounds].map(String),
      ],
      `${lines.join('\n')}\n`,
    );
    return new Map(
      output
        .trim()
        .split('\n')
        .map((line) => {
          const [group, nanoseconds] = line.split(' ');
          return [group as string, Number(nanoseconds) / 1000];
        }),
    );
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}
