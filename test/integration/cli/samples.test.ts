import { expect, test } from 'vitest';
import { runProgram } from '../../support/commandLine.ts';

test.each([
  'manifests/samples/limits',
  'manifests/samples/keda/group.yaml',
  'manifests/samples/resourceGroups.yaml',
  'manifests/samples/discovery',
])('validate finds no mistake in the examples of %s', async (path) => {
  expect(await runProgram(['validate', path])).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('no mistakes'),
  });
});
