import { expect, test } from 'vitest';
import { productNames } from '../../../src/model/names.ts';
import { neverBoolean } from '../../../src/rules/compile/conditionType.ts';
import { CompileBudget } from '../../../src/rules/language/compileBudget.ts';
import { parse } from '../../../src/rules/language/parser.ts';

const isNever = (text: string): boolean =>
  neverBoolean(parse(text, new CompileBudget(), productNames('Engine'))) !== null;

test.each([
  ...[
    '"etl"',
    '1 + 1',
    'null',
    '[1, 2]',
    '-x',
    'x = 3',
    'x += 1',
    'request.getHeader("A")',
    'request.getMethod() + "x"',
  ],
  ...['a == 1 ? "x" : 2', 'return "x"', 'x = 1; "text"', 'request.getHeader("A") or "b"'],
])('%s is never boolean', (text) => expect(isNever(text)).toBe(true));

test.each([
  ...['true', 'a == "b"', '!a', 'a && b', 'x = true', 'a contains "b"', 'a ~= "b"', 'x', 'state.get("x")'],
  ...['a == 1 ? true : 2', 'return a == 1', 'if (a) { return true; } "text"', 'request.getAttribute("a")', 'isdef x'],
  ...['request.getHeader("A").startsWith("b")', 'false or "b"', 'x = 1; x == 1'],
])('%s can be boolean', (text) => expect(isNever(text)).toBe(false));
