import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { describe, expect, test } from 'vitest';

const source = (file: string) => JSON.stringify(pathToFileURL(resolve('src/config', file)).href);

/** Runs a program that logs to standard output. */
function run(program: string, output = 'logOutput()') {
  const head = `
    import { createLogger, logOutput } from ${source('logger.ts')};
    const logger = createLogger({ level: 'info', destination: ${output} });
    let line = 0;
    const log = (count) => { for (const end = line + count; line < end; line += 1) logger.info({ line, text: 'x'.repeat(200) }, 'said'); };
  `;
  const child = spawn(process.execPath, ['--input-type=module', '-e', head + program], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.stdout.setEncoding('utf8');
  return child;
}

/** What a program prints that logs to standard output; read slowly, and not before the wait is over. */
async function printed(
  program: string,
  { output = 'logOutput()', wait = async (_said: Promise<unknown>): Promise<unknown> => undefined } = {},
): Promise<string[]> {
  const child = run(program, output);
  await wait(once(child.stderr, 'data'));
  let text = '';
  for await (const part of child.stdout) {
    text += part;
    await new Promise((next) => setImmediate(next));
  }
  return text.split('\n');
}

describe('every line of the log reaches standard output, whole and in order', () => {
  test.each<[string, string, number]>([
    ['when the program has nothing more to do', 'log(3);', 3],
    ['when it ends in the same turn', 'log(1000); process.exit(0);', 1000],
    [
      'when it ends while all threads for background work are busy',
      "const { pbkdf2 } = await import('node:crypto'); for (let work = 0; work < 8; work += 1) pbkdf2('x', 'y', 200_000, 64, 'sha512', () => {}); log(1000); process.exit(0);",
      1000,
    ],
    ['when it ends turns later', 'log(5); setTimeout(() => { log(2000); process.exit(3); }, 20);', 2005],
    [
      'when it says more while it ends',
      "process.on('exit', () => log(3)); log(5); process.on('exit', () => log(4));",
      12,
    ],
    ['when it says something each time it runs dry', "process.on('beforeExit', () => log(1)); log(5);", 6],
    ['when it fails', 'log(7); setImmediate(() => { log(7); throw new Error("defect"); });', 14],
    [
      'when far more is said than a pipe holds',
      'for (let turn = 0; turn < 20; turn += 1) setTimeout(() => log(1000), turn);',
      20_000,
    ],
  ])('%s', async (_, program, count) => {
    const lines = await printed(program);
    expect(lines.pop()).toBe('');
    const parsed = lines.map((line) => JSON.parse(line));
    expect(parsed.map(({ line }) => line)).toEqual(Array.from({ length: count }, (_, line) => line));
    expect(parsed.every(({ msg }) => msg === 'said')).toBe(true);
  });

  test('a line appears also when nothing else is said and the program goes on', async () => {
    const child = run('log(1); setInterval(() => {}, 1_000_000);');
    const [text] = await once(child.stdout, 'data');
    expect(JSON.parse(text)).toMatchObject({ line: 0, msg: 'said' });
    child.kill();
    await once(child, 'close');
  });

  test('also lines longer than a portion and of any characters, between short ones', async () => {
    const lines = await printed(`
      const texts = ['a', 'é🚀'.repeat(30_000), 'b', 'x'.repeat(21_000), 'é'.repeat(21_000), 'x'.repeat(300_000), 'c', 'é'];
      for (const text of texts) logger.info({ text }, 'said');
    `);
    expect(lines.pop()).toBe('');
    expect(lines.map((line) => JSON.parse(line).text)).toEqual([
      ...['a', 'é🚀'.repeat(30_000), 'b', 'x'.repeat(21_000), 'é'.repeat(21_000), 'x'.repeat(300_000), 'c', 'é'],
    ]);
  });

  test('lines of many turns come in few portions', async () => {
    const child = run(
      `const start = performance.now();
       const wait = new Int32Array(new SharedArrayBuffer(4));
       let turn = 0;
       const said = () => {
         log(1);
         // Time for a reader to take what was written, so that it counts each write.
         Atomics.wait(wait, 0, 0, 1);
         if (++turn < 300) setImmediate(said);
         else process.stderr.write(String(performance.now() - start));
       };
       said();`,
    );
    const elapsed = once(child.stderr, 'data');
    let text = '';
    let portions = 0;
    for await (const part of child.stdout) {
      portions += 1;
      text += part;
    }
    expect(text.split('\n')).toHaveLength(301);
    expect(portions).toBeLessThan(20 + Number(String(await elapsed)) / 15);
  });

  test('a reader that stalls stops nothing: beyond a bound lines are lost, and the log has their number', async () => {
    const lines = await printed(
      `let turn = 0;
       const timer = setInterval(() => { log(1000); if (++turn === 20) { clearInterval(timer); process.stderr.write('said'); } }, 1);`,
      { output: 'logOutput(1_000_000)', wait: (said) => said },
    );
    const parsed = lines.slice(0, -1).map((line) => JSON.parse(line));
    const [notice, ...more] = parsed.filter(({ lost }) => lost !== undefined);
    expect(more).toEqual([]);
    expect(notice).toMatchObject({ level: 'warn', msg: 'nobody read the log: lines are missing' });
    expect(notice.lost).toBeGreaterThan(10_000);
    expect(parsed.length - 1 + notice.lost).toBe(20_000);
  });

  test('what is fatal is written at once, with all before it', async () => {
    const lines = await printed('log(2); logger.fatal("over"); process.kill(process.pid, "SIGKILL");');
    expect(lines.slice(0, -1).map((line) => JSON.parse(line).msg)).toEqual(['said', 'said', 'over']);
  });
});
