import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { RoutingRuleSpec } from '../../../src/kinds/routingRule/spec.ts';
import { productNames } from '../../../src/model/names.ts';
import { headerName } from '../../../src/rules/decide/conditionIndex.ts';
import type { RuleDecision, RuleRequest } from '../../../src/rules/decision.ts';
import type { EditedRules, RecordedRequest, RuleEdit } from '../../../src/rules/replay/recordedRequest.ts';
import { RuleReplay } from '../../../src/rules/replay/ruleReplay.ts';
import { UnknownRead } from '../../../src/rules/replay/unknownRead.ts';
import { defaultRuleCompiler, resourceRule } from '../../support/resourceRules.ts';
import { sampleRequest } from '../../support/ruleAttempt.ts';

const names = productNames('Engine');

/** Conditions that read known and unknown headers, that fail without one, and that depend on what rules before did. */
const conditions = [
  'request.getHeader("a") == "1"',
  'request.getHeader("b") == "1"',
  'request.getHeader("b") != null && request.getHeader("c") == "1"',
  'request.getHeader("b").startsWith("1") && request.getHeader("a") == "1"',
  'request.getHeader("b").startsWith("1") || request.getHeader("a") == "1"',
  '!(request.getHeader("b").startsWith("1") && request.getHeader("a") == "1")',
  'request.getHeader("c") == "1" || request.getHeader("a") == "1"',
  'request.getRemoteAddr() == "10.0.0.1" && request.getHeader("a") != "1"',
  'request.getHeaders("b").hasMoreElements()',
  'state.get("seen") == "yes"',
  'result.get("routingGroup") == "g1"',
  'true',
];
const effects: readonly Partial<RoutingRuleSpec>[] = [
  { routeTo: { routingGroup: 'g1' } },
  { routeTo: { routingGroup: 'g2' }, stop: true },
  { routeTo: { cluster: 'c1' } },
  { deny: { message: 'no' } },
  { deny: { message: 'no', whenError: 'Skip' } },
  { actions: ['result.put("routingGroup", request.getHeader("b"))'] },
  { actions: ['state.put("seen", "yes")', 'result.put("routingGroup", "g3")'] },
];

type Spec = RoutingRuleSpec & { readonly name: string };
const specOf = (name: string) =>
  fc
    .record({ condition: fc.constantFrom(...conditions), effect: fc.constantFrom(...effects), priority: fc.nat(3) })
    .map(({ condition, effect, priority }): Spec => ({ name, condition, priority, ...effect }) as Spec);
const ruleNames = ['r1', 'r2', 'r3', 'r4', 'r5'] as const;
const present = fc.tuple(...ruleNames.map((name) => fc.option(specOf(name), { nil: null })));
const edit = fc
  .constantFrom(...ruleNames, 'new')
  .chain((name) => fc.tuple(fc.constant(name), fc.option(specOf(name), { nil: null })));
const headers = fc.record({
  a: fc.constantFrom('1', '2', null),
  b: fc.constantFrom('1', '2', null),
  c: fc.constantFrom('1', '2', null),
});
const address = fc.constantFrom('10.0.0.1', '10.0.0.2');
const onRuleError = fc.constantFrom('skip' as const, 'reject' as const);

const resourceOf = ({ name, ...spec }: Spec) => resourceRule(name, spec);
const compilerOf = (onRuleError: 'skip' | 'reject') => defaultRuleCompiler({ onRuleError });

const editOf = (name: string, spec: Spec | null): RuleEdit => {
  if (spec === null) return { name, rule: null };
  const { priority, condition, actions = [], routeTo, deny, stop } = spec;
  return {
    name,
    rule: {
      ...{ name, condition, actions },
      priority: priority ?? null,
      routeTo: routeTo ?? null,
      deny: deny ?? null,
      stop: stop ?? false,
    },
  };
};

function request(lines: Readonly<Record<string, string | null>>, remoteAddr: string): RuleRequest {
  return {
    ...{ ...sampleRequest, serverName: 'localhost', serverPort: 80, remoteAddr, user: null, queryProperties: null },
    headers: Object.entries(lines).flatMap(([name, value]) => (value === null ? [] : [name, value])),
  };
}

/** What is left of a request: the header a only. */
class HeaderRecord implements RecordedRequest {
  readonly method = 'POST';
  readonly path = '/v1/statement';
  readonly query = null;
  readonly scheme = 'http';
  readonly serverName = 'localhost';
  readonly serverPort = 80;
  readonly remoteUser = null;
  readonly formBody = null;
  readonly isSubmission = true;
  readonly user = null;
  readonly queryProperties = null;
  readonly time = 0;
  readonly recordedTrace: RecordedRequest['recordedTrace'];
  readonly #a: string | null;

  constructor(a: string | null, recordedTrace: RecordedRequest['recordedTrace'] = null) {
    this.recordedTrace = recordedTrace;
    this.#a = a;
  }

  get headers(): never {
    throw new UnknownRead('all header lines');
  }

  get remoteAddr(): never {
    throw new UnknownRead('the address');
  }

  header(name: string): string | null {
    if (name !== 'a') throw new UnknownRead(`header ${name}`);
    return this.#a;
  }

  lacks(source: string): boolean {
    const name = headerName(source);
    return name !== null && name !== 'a';
  }
}

const verdictOf = (decision: RuleDecision | null): string => {
  if (decision === null) return 'header';
  const { denied, rejected, cluster, routingGroup } = decision;
  return denied !== null ? 'denied' : rejected !== null ? 'refused' : `${cluster}/${routingGroup || null}`;
};

/** What a replay says of a record: whether the request moves, and why that is unknown. */
function impactOf(edited: EditedRules, record: RecordedRequest) {
  const replay = new RuleReplay(edited, { names, analyzeRequest: false }, null);
  const pairs: (readonly [string, string])[] = [];
  const { kind, unreplayed } = replay.replay(record, ({ before, after }) => {
    pairs.push([verdictOf(before), verdictOf(after)]);
    return true;
  });
  const moves = pairs.map(([from, to]) => from !== to);
  const isUnknown = kind === 'undecidable' || (moves.includes(true) && moves.includes(false));
  return { impact: isUnknown ? 'unknown' : moves.includes(true) ? 'moved' : 'unmoved', pairs, unreplayed };
}

test('what a replay says of a record is so for the whole request, whatever the record lacks', () => {
  const seen = { unknown: 0, moved: 0, unmoved: 0 };
  fc.assert(
    fc.property(
      present,
      fc.array(edit, { minLength: 1, maxLength: 3 }),
      headers,
      address,
      onRuleError,
      fc.boolean(),
      (rules, edits, lines, from, errors, isRecorded) => {
        const given = rules.filter((rule) => rule !== null);
        const compiler = compilerOf(errors);
        const { ruleSet } = compiler.compile(given.map(resourceOf), null);
        const edited = compiler.edited(edits.map(([name, spec]) => editOf(name, spec)));
        if (edited === null || 'problems' in edited) throw new Error('the edits compile');
        const after = new Map<string, Spec>(given.map((rule) => [rule.name, rule]));
        for (const [name, spec] of edits) {
          if (spec === null) after.delete(name);
          else after.set(name, spec);
        }
        const whole = request(lines, from);
        const truth = [
          verdictOf(ruleSet?.decide(whole) ?? null),
          verdictOf(
            compilerOf(errors)
              .compile([...after.values()].map(resourceOf), null)
              .ruleSet?.decide(whole) ?? null,
          ),
        ];
        const rulesThen = ruleSet?.decide(whole).trace.rules ?? [];
        const trace = isRecorded ? { version: ruleSet?.version ?? '', rules: rulesThen } : null;
        const { impact, pairs, unreplayed } = impactOf(edited, new HeaderRecord(lines.a, trace));
        seen[impact as keyof typeof seen] += 1;
        if (impact === 'unknown') expect(unreplayed.length).toBeGreaterThan(0);
        else {
          expect(impact).toBe(truth[0] === truth[1] ? 'unmoved' : 'moved');
          if (pairs.length > 0) expect(pairs).toContainEqual(truth);
        }
      },
    ),
    { numRuns: 600 },
  );
  // Each answer is given, and often enough to mean something.
  for (const count of Object.values(seen)) expect(count).toBeGreaterThan(5);
});

test('rules that are not changed move nothing, however little is known', () => {
  fc.assert(
    fc.property(present, headers, onRuleError, (rules, lines, errors) => {
      const given = rules.filter((rule) => rule !== null);
      const compiler = compilerOf(errors);
      compiler.compile(given.map(resourceOf), null);
      // Each rule is replaced by itself, compiled again.
      const edited = compiler.edited(given.map((spec) => editOf(spec.name, spec)));
      if (edited === null || 'problems' in edited) throw new Error('the edits compile');
      const { impact, pairs } = impactOf({ ...edited, after: edited.before }, new HeaderRecord(lines.a));
      expect(impact).toBe('unmoved');
      expect(pairs).toEqual([]);
      // The same texts come out alike, but for actions and rules that depend on others.
      expect(impactOf(edited, new HeaderRecord(lines.a)).impact).not.toBe('moved');
    }),
    { numRuns: 150 },
  );
});
