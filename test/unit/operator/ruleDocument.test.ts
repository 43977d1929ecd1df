import { describe, expect, test } from 'vitest';
import { replaceRule } from '../../../src/operator/registry/rulesFile/ruleDocument.ts';

const fields = { name: 'b', description: 'd', priority: null, condition: 'true', actions: ['1'] };
const a = '# first\n---\nname: a\ndescription: "x"   # kept\ncondition: \'true\'\nactions: ["1"]\n';
const c = '---\n{name: c, description: d, condition: "true", actions: ["1"]}\n...\n';

describe('replacing a rule of a file', () => {
  test.each([
    [
      'priority added',
      '---\nname: b\ndescription: d\ncondition: "true" # why\nactions:\n  - "1"\n',
      { priority: 5 },
      'priority: 5',
    ],
    [
      'priority taken out',
      '---\nname: b\npriority: 5\ndescription: d\ncondition: "true"\nactions: ["1"]\n',
      {},
      'name: b\ndescription',
    ],
    [
      'condition',
      '---\n# note\nname: b\ndescription: d\ncondition: "true"\nactions: ["1"]\n',
      { condition: 'request.getMethod() == "GET"' },
      'request.getMethod()',
    ],
    [
      'actions of a flow map',
      '---\n{name: b, description: d, condition: "true", actions: ["1"]}\n',
      { actions: ['2', '3'] },
      '3',
    ],
    [
      'block text',
      '---\nname: b\ndescription: d\ncondition: |\n  true\n  && true\nactions:\n- |\n  1\n',
      { description: 'new' },
      'description: new',
    ],
  ])('%s', async (_what, b, change, contained) => {
    const rule = {
      ...fields,
      ...(b.includes('|') ? { condition: 'true\n&& true\n', actions: ['1\n'] } : {}),
      ...change,
    };
    const after = await replaceRule('rules.yaml', a + b + c, rule);
    expect(after?.startsWith(a)).toBe(true);
    expect(after?.endsWith(c)).toBe(true);
    expect(after).toContain(contained);
    // Said once, it is not written again.
    expect(await replaceRule('rules.yaml', after ?? '', rule)).toBe(after);
  });

  test('line ends stay as they are', async () => {
    const text = `${a}---\nname: b\ndescription: d\ncondition: "true"\nactions: ["1"]\n${c}`.replaceAll('\n', '\r\n');
    const after = (await replaceRule('rules.yaml', text, { ...fields, priority: 3 })) ?? '';
    expect(after.replaceAll('\r\n', '')).not.toContain('\n');
    expect(after.endsWith(c.replaceAll('\n', '\r\n'))).toBe(true);
  });

  test('unknown and doubled names', async () => {
    expect(await replaceRule('rules.yaml', a, fields)).toBeNull();
    await expect(replaceRule('rules.yaml', a + a, { ...fields, name: 'a' })).rejects.toThrow(/2 rules named a/);
  });

  test('other documents may be broken', async () => {
    const text = `${a}---\nname: z\ncolour: red\n`;
    const after = await replaceRule('rules.yaml', text, { ...fields, name: 'a', description: 'y' });
    expect(after).toContain('description: "y" # kept');
    expect(after?.endsWith('---\nname: z\ncolour: red\n')).toBe(true);
  });
});
