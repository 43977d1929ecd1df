import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chmod, copyFile, cp, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nativeDependencies } from '../../scripts/nativeDependenciesPage.ts';
import { serverExternals } from '../../scripts/serverExternals.ts';
import { requireComponent } from '../support/components.ts';
import { databases } from '../support/databases.ts';
import { freePort } from '../support/freePort.ts';
import { execForm, type Instruction, inContext, parseDockerfile, type Stage } from './dockerfile.ts';

const run = promisify(execFile);
const project = resolve(import.meta.dirname, '../..');
const stages = parseDockerfile(await readFile(join(project, 'Dockerfile'), 'utf8'));
const final = stages.at(-1) as Stage;
const only = (name: string): Instruction => {
  const found = final.instructions.filter((each) => each.name === name);
  expect(found, name).toHaveLength(1);
  return found[0] as Instruction;
};

describe('the Dockerfile', () => {
  test('has stages on one slim image, of the Node.js that the tests run on, pinned by digest', async () => {
    const lock = JSON.parse(await readFile(join(project, 'package-lock.json'), 'utf8')) as {
      readonly packages: Readonly<Record<string, { readonly version?: string }>>;
    };
    const version = lock.packages['node_modules/node']?.version ?? 'none';
    const bases = new Set(stages.map((stage) => stage.base));
    expect([...bases]).toEqual([expect.stringMatching(/@sha256:[0-9a-f]{64}$/)]);
    expect([...bases][0]).toContain(`node:${version}-slim@`);
  });

  test('takes nothing from a registry but the base: no frontend, no stage of another image', async () => {
    const text = await readFile(join(project, 'Dockerfile'), 'utf8');
    expect(text).not.toMatch(/^#\s*syntax\s*=/m);
    const names = new Set(stages.map((stage) => stage.name));
    for (const { flags } of stages.flatMap((stage) => stage.instructions)) {
      if (flags.from !== undefined) expect(names).toContain(flags.from);
    }
  });

  test('runs as an ordinary user, by number, so that Kubernetes can check it', () => {
    expect(only('USER').text).toBe('1000:1000');
    const user = final.instructions.findIndex((each) => each.name === 'USER');
    const after = final.instructions.slice(user + 1).map((each) => each.name);
    expect(after.filter((name) => ['RUN', 'COPY', 'ADD', 'USER'].includes(name))).toEqual([]);
  });

  test('has labels, a health check, and programs in exec form', () => {
    for (const label of ['title', 'description', 'licenses', 'version', 'revision']) {
      expect(only('LABEL').text).toContain(`org.opencontainers.image.${label}=`);
    }
    for (const name of ['HEALTHCHECK', 'ENTRYPOINT', 'CMD'])
      expect(execForm(only(name).text).length).toBeGreaterThan(0);
    expect(Object.keys(only('HEALTHCHECK').flags)).toEqual(['interval', 'timeout', 'start-period', 'retries']);
  });
});

const asRoot = process.getuid?.() === 0;
const privileges = await run('setpriv', ['--version']).then(
  () => true,
  () => false,
);
const canRun = requireComponent('root with setpriv', asRoot && privileges, 'run as root, with util-linux installed');

describe.skipIf(!canRun)("the Dockerfile's steps in a clean folder", () => {
  let work: string;
  let image: string;
  let port: number;
  let gateway: ChildProcess;
  let output = '';
  const environment = (): Record<string, string> => ({
    PATH: `${image}/usr/local/bin:/usr/bin:/bin`,
    NODE_ENV: 'production',
    ENGINE_GATEWAY_HEALTH_URL: `http://127.0.0.1:${port}/livez`,
  });
  /** A program of the image, as its user: paths of the image are below its folder here. */
  const asUser = (command: readonly string[]): readonly string[] => [
    ...['--reuid=1000', '--regid=1000', '--clear-groups', '--no-new-privs', '--'],
    ...command.map((each) => (each.startsWith('/') ? join(image, each) : each)),
  ];

  beforeAll(async () => {
    work = await mkdtemp(join(tmpdir(), 'image-'));
    await chmod(work, 0o755);
    const context = join(work, 'context');
    await copyContext(context);
    // Beside each other, as a builder does it; a stage that copies from another one waits for it.
    const folders = new Map<string, Promise<string>>();
    for (const [i, stage] of stages.entries()) {
      folders.set(stage.name ?? String(i), buildStage(stage, join(work, `stage-${i}`), context, folders));
    }
    image = (await Promise.all(folders.values())).at(-1) as string;
    port = await freePort();
  }, 420_000);

  afterAll(async () => {
    if (gateway !== undefined && gateway.exitCode === null) gateway.kill('SIGKILL');
    if (work !== undefined) await rm(work, { recursive: true, force: true });
  });

  test('the image holds the program and the libraries outside of its bundle, and no file its user may write', async () => {
    const app = await readdir(join(image, 'app'));
    expect(app.sort()).toEqual(['LICENSE', 'bin', 'dist', 'node_modules', 'package.json']);
    // The libraries that the bundle leaves out, and only what these need.
    const modules = await readdir(join(image, 'app/node_modules'));
    expect(modules).toEqual(expect.arrayContaining([...serverExternals]));
    for (const name of ['vitest', 'typescript', 'node', '@types', 'fastify', '@kubernetes', '.bin']) {
      expect(modules).not.toContain(name);
    }
    const { stdout } = await run('du', ['-sm', join(image, 'app/node_modules')]);
    expect(Number.parseInt(stdout, 10)).toBeLessThan(25);
    const writable = await run('find', [image, '-writable', '-not', '-type', 'l'], { uid: 1000, gid: 1000 });
    expect(writable.stdout.trim().split('\n')).toEqual([join(image, 'data')]);
  });

  test('every package of the image that has native code is named with its purpose', async () => {
    const page = await readFile(join(project, 'docs/native-dependencies.md'), 'utf8');
    const named = [...page.matchAll(/^\| `([^`]+)`/gm)].map(([, name]) => name);
    const { stdout } = await run(
      'find',
      ['.', '(', '-name', '*.node', '-o', '-name', '*.wasm', '-o', '-name', 'binding.gyp', ')'],
      {
        cwd: join(image, 'app/node_modules'),
      },
    );
    const holders = stdout.split('\n').flatMap((path) => /^\.\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
    expect([...new Set(holders)].sort()).toEqual(named);
    expect((await nativeDependencies(project, join(image, 'app'))).map(({ name }) => name)).toEqual(named);
  });

  test('the program leaves out what it never calls of its libraries, of which memory would be taken', async () => {
    const folder = join(image, 'app/dist/server');
    const sizes = await Promise.all((await readdir(folder)).map(async (file) => (await stat(join(folder, file))).size));
    expect(sizes.reduce((sum, size) => sum + size) / 1_000_000).toBeLessThan(8);
  });

  for (const { name, available, start } of databases) {
    test.skipIf(!available())(`its modules are enough for ${name}`, async () => {
      const database = await start();
      try {
        const dataStore = name === 'sqlite' ? { jdbcUrl: 'jdbc:sqlite::memory:' } : await database.create();
        const config = join(image, 'export.yaml');
        await writeFile(
          config,
          JSON.stringify({ authentication: 'none', resources: { source: 'database' }, dataStore }),
        );
        // Makes the tables and reads them.
        const command = ['/usr/local/bin/node', '/app/dist/server/main.js', 'export', '--config', '/export.yaml'];
        const { stderr } = await run('setpriv', asUser(command), { cwd: image, env: environment() });
        expect(stderr).not.toContain('error');
        await rm(config);
      } finally {
        await database.dispose();
      }
    });
  }

  test('the health check fails while nothing runs', async () => {
    await expect(healthCheck()).rejects.toMatchObject({ code: 1 });
  });

  test('it starts as its user, becomes healthy, writes to /data alone and stops cleanly', async () => {
    const config = join(image, 'gateway.yaml');
    // What the image itself runs with, on a free port.
    const shipped = await readFile(join(image, only('CMD').text.match(/"(\/etc[^"]+)"/)?.[1] ?? ''), 'utf8');
    await writeFile(config, `${shipped}serverConfig:\n  http-server.http.port: ${port}\n`);
    const entry = [...execForm(only('ENTRYPOINT').text), ...execForm(only('CMD').text), '--config', '/gateway.yaml'];
    gateway = spawn('setpriv', asUser(entry), { cwd: image, env: environment(), stdio: ['ignore', 'pipe', 'pipe'] });
    const ended = new Promise((done) => gateway.once('close', done));
    for (const stream of [gateway.stdout, gateway.stderr]) {
      stream?.on('data', (chunk: Buffer) => {
        output += chunk.toString();
      });
    }
    await expect
      .poll(
        () =>
          healthCheck().then(
            () => 'healthy',
            (error: Error) => `${error.message} ${output}`,
          ),
        { timeout: 30_000 },
      )
      .toBe('healthy');
    const answer = await fetch(`http://127.0.0.1:${port}/gateway/backend/all`);
    expect([answer.status, await answer.json()]).toEqual([200, []]);
    const page = await fetch(`http://127.0.0.1:${port}/engine-gateway/clusters`);
    expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
    expect(await readdir(join(image, 'data'))).toContain('gateway.db');
    const newer = await run('find', [image, '-newer', config, '-not', '-path', join(image, 'data*')]);
    expect(
      newer.stdout
        .trim()
        .split('\n')
        .filter((path) => path !== ''),
    ).toEqual([]);
    gateway.kill('SIGTERM');
    await ended;
    expect([gateway.exitCode, gateway.signalCode], output).toEqual([0, null]);
    expect(output).toContain('authentication is none: every call of the API passes with all roles');
  });

  function healthCheck() {
    return run('setpriv', asUser(execForm(only('HEALTHCHECK').text)), { cwd: image, env: environment() });
  }
});

/** The files that git would have, less what .dockerignore leaves out. */
async function copyContext(context: string): Promise<void> {
  const ignore = await readFile(join(project, '.dockerignore'), 'utf8');
  const { stdout } = await run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: project,
  });
  for (const file of stdout.split('\0').filter((each) => each !== '' && inContext(ignore, each))) {
    await mkdir(dirname(join(context, file)), { recursive: true });
    // A file that was deleted but not yet committed is not in the context.
    await copyFile(join(project, file), join(context, file)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error;
    });
  }
}

/** Runs a stage's steps with its root at a folder, which it returns; the base image is this Node and the machine's npm. */
async function buildStage(
  { instructions }: Stage,
  root: string,
  context: string,
  others: ReadonlyMap<string, Promise<string>>,
): Promise<string> {
  await mkdir(join(root, 'usr/local/bin'), { recursive: true });
  await copyFile(process.execPath, join(root, 'usr/local/bin/node'));
  let folder = '/';
  for (const { name, flags, text } of instructions) {
    if (name === 'WORKDIR') {
      folder = resolve(folder, text);
      await mkdir(join(root, folder), { recursive: true });
    } else if (name === 'COPY') {
      const paths = text.split(/\s+/);
      const target = paths.pop() ?? '';
      const from = flags.from === undefined ? context : ((await others.get(flags.from)) ?? '');
      for (const path of paths) {
        const to = join(root, resolve(folder, target));
        const intoFolder = target.endsWith('/') || paths.length > 1;
        await cp(join(from, path), intoFolder ? join(to, basename(path)) : to, {
          recursive: true,
          verbatimSymlinks: true,
        });
      }
    } else if (name === 'RUN') {
      // Absolute paths of the image are below its folder here.
      const command = text.replace(/(?<=\s)\/(?=\w)/g, `${root}/`);
      // Packages of the same lock file, which npm has from the project's own installation.
      const path = `${root}/usr/local/bin:${process.env.PATH}`;
      const env = { ...process.env, PATH: path, npm_config_prefer_offline: 'true' };
      await run('sh', ['-ec', command], { cwd: join(root, folder), env });
    }
  }
  return root;
}
