import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const run = promisify(execFile);

/** Environment in which Node.js programs take the running Node.js for the given version. */
function asNode(version: string): NodeJS.ProcessEnv {
  const code = `Object.defineProperty(process,'version',{value:'v${version}'});Object.defineProperty(process,'versions',{value:{...process.versions,node:'${version}'}})`;
  return { ...process.env, NODE_OPTIONS: `--import data:text/javascript,${code}` };
}

const installation = ['ci', '--dry-run', '--ignore-scripts'];

test('npm ci prints no warning on Node.js 20', async () => {
  expect(await run('npm', installation, { env: asNode('20.20.2') })).toMatchObject({ stderr: '' });
}, 60_000);

test('npm ci warns once about a Node.js that is too old', async () => {
  const { stderr } = await run('npm', installation, { env: asNode('19.9.0') });
  expect(stderr.match(/package: .*|required: .*/g)).toEqual([
    "package: 'engine-gateway@0.1.0',",
    "required: { node: '>=20' },",
  ]);
}, 60_000);

test('the command of the package names the Node.js that it needs', async () => {
  await expect(run('node', ['bin/engine-gateway.js', '--version'], { env: asNode('20.20.2') })).rejects.toMatchObject({
    code: 1,
    stdout: '',
    stderr: 'engine-gateway needs Node.js 26 or newer; this is v20.20.2.\n',
  });
});
