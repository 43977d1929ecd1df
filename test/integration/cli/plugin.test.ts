import { expect, test } from 'vitest';
import { runCommand } from '../../support/commandLine.ts';

const help = async (...args: readonly string[]) => (await runCommand([...args, '--help'], {}, '', PLUGIN)).stdout;
const PLUGIN = 'kubectl-engine_gateway';

test('the plugin of kubectl has commands of its own, with help', async () => {
  const texts = [await help()];
  for (const name of ['explain', 'queries', 'drain', 'status']) texts.push(await help(name));
  await expect(texts.join('\n')).toMatchFileSnapshot('golden/plugin-help.txt');
  expect(await runCommand(['serve'], {}, '', PLUGIN)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("unknown command 'serve'"),
  });
});
