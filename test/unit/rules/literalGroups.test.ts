import { expect, test } from 'vitest';
import { productNames } from '../../../src/model/names.ts';
import { literalGroups } from '../../../src/rules/compile/resultKeys.ts';
import { CompileBudget } from '../../../src/rules/language/compileBudget.ts';
import { parse } from '../../../src/rules/language/parser.ts';

test.each<[text: string, groups: readonly string[]]>([
  ['result.put("routingGroup", "etl")', ['etl']],
  ["result.put('routingGroup', 'etl'); result.putIfAbsent('routingGroup', 'adhoc')", ['etl', 'adhoc']],
  ['result.routingGroup = "etl"', ['etl']],
  ['result["routingGroup"] = "etl"', ['etl']],
  [
    'if (request.getHeader("a") == "b") { result.put("routingGroup", "x") } else { result.put("routingGroup", "y") }',
    ['x', 'y'],
  ],
  ['result.put("routingGroup", "etl"); result.put("routingGroup", "etl")', ['etl']],
  ['result.put("routingGroup", request.getHeader("X-Group"))', []],
  ['result.put("routingGroup", "team-" + request.getHeader("X-Team"))', []],
  ['result.put("other", "etl")', []],
  ['state.put("routingGroup", "etl")', []],
])('%s names %j', (text, groups) => {
  expect(literalGroups(parse(text, new CompileBudget(), productNames('Engine')))).toEqual(groups);
});
