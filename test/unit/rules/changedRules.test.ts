import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { RoutingRule } from '../../../src/kinds/routingRule/spec.ts';
import type { CompiledRules } from '../../../src/rules/ruleCompiler.ts';
import { defaultRuleCompiler, resourceRule } from '../../support/resourceRules.ts';

const newCompiler = () => defaultRuleCompiler({ analyzeRequest: true });

const rule = (name: string, version: number, spec: object): RoutingRule => {
  const condition = `request.getHeader("X-Engine-Source") == "${name}"`;
  const { metadata, ...rest } = resourceRule(name, { condition, routeTo: { routingGroup: 'a' }, ...spec });
  return { ...rest, metadata: { ...metadata, resourceVersion: String(version), generation: version } };
};

/** All that a compilation says. */
const said = ({ ruleSet, ...rest }: CompiledRules) => ({
  ...rest,
  hasRules: ruleSet !== null,
  needsAnalysis: ruleSet?.needsAnalysis,
});

const change = fc.record({
  position: fc.nat(11),
  spec: fc.oneof(
    fc.record({ routeTo: fc.record({ routingGroup: fc.constantFrom('a', 'b') }) }),
    fc.record({ priority: fc.integer({ min: -2, max: 2 }) }),
    fc.record({ suspend: fc.boolean() }),
    // The same name as another's, for a while.
    fc.record({ name: fc.constantFrom('r0', 'r3', 'own') }),
    // One that warns, and one that needs the query.
    fc.record({
      condition: fc.constantFrom('nothing == 1', 'engineQueryProperties.getQueryType() == "Query"', 'true'),
    }),
    fc.constant('deleted' as const),
  ),
});

test('after any changes the rules are those that a compiler makes that has seen none of them', () => {
  fc.assert(
    fc.property(fc.array(change, { minLength: 1, maxLength: 30 }), (changes) => {
      const compiler = newCompiler();
      let resources = Array.from({ length: 12 }, (_, index) => rule(`r${index}`, 1, {}));
      compiler.compile(resources, null);
      for (const [version, { position, spec }] of changes.entries()) {
        const index = position % resources.length;
        resources =
          spec === 'deleted' && resources.length > 1
            ? resources.filter((_, each) => each !== index)
            : resources.map((each, at) =>
                at === index ? rule(each.metadata.name, version + 2, spec as object) : each,
              );
        expect(said(compiler.compile(resources, null))).toEqual(said(newCompiler().compile(resources, null)));
      }
    }),
    { numRuns: 60 },
  );
});

test('a change that does not compile leaves the last version in force, in its place', () => {
  const compiler = newCompiler();
  const rules = Array.from({ length: 6 }, (_, index) => rule(`r${index}`, 1, {}));
  const { order } = compiler.compile(rules, null);
  const broken = compiler.compile(
    rules.map((each, index) => (index === 2 ? rule('r2', 2, { condition: 'request.' }) : each)),
    null,
  );
  expect(broken.order).toEqual(order);
  expect(broken.reports.get('RoutingRule/default/r2')).toMatchObject({ accepted: false, inForce: 'previous' });
  expect(broken.reports.get('RoutingRule/default/r3')).toMatchObject({ accepted: true, inForce: 'current' });
});
