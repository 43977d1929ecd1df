import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { attack, sendJson } from './attack.ts';
import { startTarget, type Target } from './target.ts';

/** Statements that make `s`, of 2 to the power of n units: a loop of characters would be bounded by steps. */
const doubled = (unit: string, times: number) =>
  `String s = "${unit}"; for (int i = 0; i < ${times}; i++) { s = s + s; } `;
/** Does something again and again with operands that are made once: nothing of it takes memory. */
const repeated = (statement: string) => `for (int i = 0; i < 20000; i++) { ${statement}; }`;

/** Actions that make the library work on large operands; each costs few steps where operands are not counted. */
const attacks: readonly (readonly [string, string])[] = [
  ['search', `${doubled('a', 20)} String t = s.substring(0, 500000) + "b"; ${repeated('s.indexOf(t)')}`],
  [
    'search from the end',
    `${doubled('a', 20)} String t = "b" + s.substring(0, 500000); ${repeated('s.lastIndexOf(t)')}`,
  ],
  ['containment', `${doubled('ab', 19)} String t = s.substring(0, 500000) + "c"; ${repeated('s.contains(t)')}`],
  ['replacement', `${doubled('a', 20)} String t = s.substring(0, 500000) + "b"; ${repeated('s.replace(t, "c")')}`],
  ['equality', `${doubled('a', 20)} String t = s.substring(1) + "b"; ${repeated('s.equals(t)')}`],
  ['equality of any case', `${doubled('a', 20)} String t = s.substring(1) + "b"; ${repeated('s.equalsIgnoreCase(t)')}`],
  ['comparison', `${doubled('a', 20)} String t = s.substring(1) + "b"; ${repeated('s.compareTo(t)')}`],
  ['beginnings', `${doubled('a', 20)} String t = s.substring(1) + "b"; ${repeated('s.startsWith(t)')}`],
  ['hashes', `${doubled('a', 20)} ${repeated('s.hashCode()')}`],
  ['patterns', `${doubled('a', 20)} ${repeated('s.matches("(a|aa)*b")')}`],
  ['numbers', `${doubled('0', 20)} ${repeated('Long.parseLong(s)')}`],
  ['trimming', `${doubled(' ', 20)} ${repeated('s.isBlank()')}`],
  ['growing texts', `${doubled('a', 15)} ${repeated('s.replace("a", s)')}`],
  ['splitting', `${doubled('a,', 19)} ${repeated('s.split(",")')}`],
  [
    'sorting',
    `${doubled('a,', 15)} l = new ArrayList(Arrays.asList(s.split(","))); ${repeated('Collections.sort(l)')}`,
  ],
  ['an endless loop', 'for (int i = 0; i < 2000000000; i++) { i = 0; }'],
];

describe("the explain call with a rule of one's own", () => {
  let target: Target;
  beforeAll(async () => {
    target = await startTarget({ requestAnalyzerConfig: { analyzeRequest: true } });
  });
  afterAll(() => target?.close());

  test.each(attacks)('%s in large texts', async (name, action) => {
    const rule = { name: 'mine', condition: 'true', actions: [action] };
    const { answer } = await attack(target, `explain with a rule: ${name}`, () =>
      sendJson(target, 'POST', '/api/explain', { rule }),
    );
    // It compiles, and is asked.
    expect(answer.status, answer.text.slice(0, 500)).toBe(200);
  });

  test('a condition of the greatest length', async () => {
    for (const unit of ['(', '!', 'a || ', '1 + ', '"a" + ', 'a.b', '[', '{', 'a ? ', '-']) {
      const condition = `${unit.repeat(Math.floor(16_000 / unit.length))}a`;
      const rule = { name: 'mine', condition, actions: ['result.put("routingGroup", "adhoc")'] };
      const { answer } = await attack(target, `explain with a condition of ${unit}`, () =>
        sendJson(target, 'POST', '/api/explain', { rule }),
      );
      expect([200, 400], answer.text.slice(0, 300)).toContain(answer.status);
    }
  });
});
