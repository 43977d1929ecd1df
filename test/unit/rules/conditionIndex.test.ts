import fc from 'fast-check';
import { expect, test } from 'vitest';
import { membershipOf } from '../../../src/gateway/analysis/membership.ts';
import type { RuleRequest } from '../../../src/rules/decision.ts';
import { defaultRuleCompiler } from '../../support/resourceRules.ts';
import { sampleRequest } from '../../support/ruleAttempt.ts';

const value = fc.constantFrom('a', 'b', 'c', '');
const text = value.map((content) => JSON.stringify(content));
const header = fc.constantFrom('request.getHeader("X-Engine-Source")', 'request.getHeader("x-tag")');

/** Conditions of the forms that the index knows, of forms that it must leave alone, and combinations of them. */
const atom = fc.oneof(
  fc.tuple(header, text).map(([left, right]) => `${left} == ${right}`),
  fc.tuple(text, header).map(([left, right]) => `${left} == ${right}`),
  header.map((left) => `${left} != null`),
  header.map((left) => `${left} == null`),
  fc.tuple(header, text).map(([left, right]) => `${left}.equals(${right})`),
  fc.tuple(header, text).map(([left, right]) => `${left} contains ${right}`),
  fc.tuple(header, fc.array(text, { maxLength: 3 })).map(([left, items]) => `[${items.join(', ')}] contains ${left}`),
  text.map((name) => `engineRequestUser.userExistsAndEquals(${name})`),
  fc.constantFrom('engineRequestUser.getUser().isPresent()', 'engineRequestUser.user.isPresent()'),
  text.map((name) => `engineRequestUser.getUser().orElse("") == ${name}`),
  text.map((name) => `engineRequestUser.getUser().orElse(null) == ${name}`),
  text.map((name) => `engineRequestUser.isInGroup(${name})`),
  text.map((name) => `engineRequestUser.getGroups() contains ${name}`),
  text.map((name) => `engineRequestUser.groups.contains(${name})`),
  text.map((name) => `engineQueryProperties.getCatalogs() contains ${name}`),
  value.map((name) => `engineQueryProperties.tablesContains("a.b.${name}")`),
  text.map((name) => `engineQueryProperties.getDefaultCatalog() == ${name}`),
  fc.constantFrom('true', 'false', 'state.seen == true', 'request.method == "POST"'),
);
const condition = fc.oneof(
  atom,
  fc.array(atom, { minLength: 2, maxLength: 3 }).map((atoms) => atoms.join(' && ')),
  fc.array(atom, { minLength: 2, maxLength: 3 }).map((atoms) => atoms.join(' || ')),
  fc.tuple(atom, atom, atom).map(([a, b, c]) => `(${a} || ${b}) && ${c}`),
  fc.tuple(atom, atom).map(([a, b]) => `!(${a}) && ${b}`),
);

const request = fc.record({
  source: fc.option(value, { nil: null }),
  tag: fc.option(value, { nil: null }),
  user: fc.option(value, { nil: null }),
  groups: fc.option(fc.uniqueArray(value, { maxLength: 2 }), { nil: null }),
  catalogs: fc.uniqueArray(value, { maxLength: 2 }),
  table: value,
});

function requestOf(parts: {
  source: string | null;
  tag: string | null;
  user: string | null;
  groups: string[] | null;
  catalogs: string[];
  table: string;
}): RuleRequest {
  const headers = ['Host', 'gateway.example'];
  if (parts.source !== null) headers.push('X-Engine-Source', parts.source);
  if (parts.tag !== null) headers.push('X-TAG', parts.tag);
  if (sampleRequest.queryProperties === null) throw new Error('the sample request is analysed');
  return {
    ...sampleRequest,
    headers,
    user: {
      ...{ user: parts.user, userInfo: null },
      ...(parts.groups === null ? {} : { membership: membershipOf([{ source: 'file', groups: parts.groups }]) }),
    },
    queryProperties: {
      ...sampleRequest.queryProperties,
      catalogs: parts.catalogs,
      defaultCatalog: parts.catalogs[0] ?? null,
      tables: [['a', 'b', parts.table]],
    },
  };
}

function compile(conditions: readonly string[]) {
  const text = conditions
    .map(
      (one, index) =>
        `---\nname: r${index}\ndescription: d\ncondition: '${one}'\nactions: ['result.put("routingGroup", "g${index}")']\n`,
    )
    .join('');
  const compiler = defaultRuleCompiler({ rulesEngineEnabled: true, analyzeRequest: true });
  const compiled = compiler.compile([], { path: 'rules.yaml', text });
  expect(compiled.fileProblems).toEqual([]);
  if (compiled.ruleSet === null) throw new Error('there is no rule set');
  return compiled.ruleSet;
}

test('with many rules, where an index leaves rules out, each does what it does alone', () => {
  fc.assert(
    fc.property(
      fc.array(condition, { minLength: 30, maxLength: 40 }),
      fc.array(request, { minLength: 1, maxLength: 6 }),
      (conditions, parts) => {
        const all = compile(conditions);
        const single = conditions.map((one) => compile([one]));
        for (const part of parts) {
          const ruleRequest = requestOf(part);
          const outcomes = all.decide(ruleRequest).trace.rules.map(({ outcome, error }) => [outcome, error]);
          expect(outcomes).toEqual(
            single.map((ruleSet) => {
              const [entry] = ruleSet.decide(ruleRequest).trace.rules;
              return [entry?.outcome, entry?.error];
            }),
          );
        }
      },
    ),
    { numRuns: 15 },
  );
});
