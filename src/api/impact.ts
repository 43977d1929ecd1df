import type { FastifyReply } from 'fastify';
import { type Static, Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import type { EditedRules, RuleEdit } from '../rules/replay/recordedRequest.ts';
import type { RuleCompiler } from '../rules/ruleCompiler.ts';
import type { ApiContext, RuleParts } from './apiContext.ts';
import { malformed } from './errors.ts';
import { checkedBody, routes } from './routes.ts';
import { RuleImpact, ruleFields, wholeRule } from './rules.ts';
import { iso, isoOrNull, nullable, objectOf } from './schemas.ts';

/** Length of the range where no start is given, milliseconds. */
const DAY_MS = 24 * 3_600_000;
const MAX_QUERIES = 100_000;
/** Milliseconds of one call. */
const REPLAY_MS = 20_000;

const time = (description: string) => Type.Optional(nullable(Type.String({ maxLength: 64 }), description));
const bound = (maximum: number, description: string) =>
  Type.Optional(Type.Integer({ minimum: 1, maximum, description }));
const exactly = (description: string) => Type.Optional(nullable(Type.String({ maxLength: 256 }), description));

const ImpactQuestion = Type.Object(
  {
    from: time('RFC 3339; 24 hours before `to` by default.'),
    to: time('RFC 3339; now by default.'),
    user: exactly('Queries of this user only.'),
    source: exactly('Queries of this source only.'),
    changes: Type.Array(
      objectOf(
        { additionalProperties: false },
        {
          name: Type.String({ minLength: 1, maxLength: 256, description: 'Name of the rule.' }),
          rule: nullable(
            Type.Object(ruleFields, { additionalProperties: false }),
            'The rule as it would be, in place of the one of its name or added; null: it would be deleted.',
          ),
        },
      ),
      { minItems: 1, maxItems: 200, description: 'What would change, all at once.' },
    ),
    queries: bound(MAX_QUERIES, `Most queries that are looked at, the newest first; ${MAX_QUERIES} by default.`),
    examples: bound(100, 'Most examples; 20 by default.'),
    top: bound(1_000, 'Most entries of each list; 20 by default.'),
  },
  { additionalProperties: false, description: 'A change of rules that is not made yet, and the queries to look at.' },
);

/** Route for the effect of a rule change on the queries of the history (docs/rest-api.md#impact-of-a-change). */
export function impactRoutes(
  api: ApiContext,
  { routingRules, edited, replays, database, replaySettings: settings, estimates }: RuleParts,
): void {
  routes(api, 'routing rules')('POST', '/api/rules/impact', {
    summary: 'What a change of rules would do to the queries of the history',
    description:
      'Replays the queries of a range through the rules in force and through the changed ones, in a thread of its own. Nothing is changed. One call at a time; closing the connection ends it.',
    body: checkedBody(ImpactQuestion),
    returns: ['Which queries would move.', RuleImpact],
    errors: [409, 422, 503],
    options: { config: { isRead: true } },
    handle: async ({ reply, body }): Promise<RuleImpact> => {
      const { user = null, source = null, queries = MAX_QUERIES, examples = 20, top = 20, changes } = body;
      const range = rangeOf(body, api.clock.now());
      const edits = changes.map(({ name, rule }, index): RuleEdit => {
        if (changes.findIndex((each) => each.name === name) < index) {
          throw malformed([{ field: `changes[${index}].name`, message: `is named twice; give each rule once` }]);
        }
        return { name, rule: rule === null ? null : wholeRule(name, rule, `changes[${index}].rule.`) };
      });
      for (const [index, { name, rule }] of edits.entries()) {
        if (rule !== null || routingRules.byName(name) !== null) continue;
        const message = `names no rule, so that nothing can be deleted; GET /api/rules lists the rules`;
        throw malformed([{ field: `changes[${index}].name`, message }]);
      }
      const rules = editedRules(edited(edits));
      const readsEstimates = /estimate/i.test(JSON.stringify(rules.definitions));
      const job = {
        ...{ database, settings, rules, estimates: readsEstimates ? estimates.table : null },
        range: { ...range, ...(user === null ? {} : { user }), ...(source === null ? {} : { source }) },
        bounds: { queries, time: REPLAY_MS, top, examples },
      };
      const report = await replays.run(job, endOfCaller(reply));
      return {
        ...{ ...report, from: iso(range.from), to: iso(range.to), oldest: isoOrNull(report.oldest) },
        estimatesOf: isoOrNull(job.estimates?.until ?? null),
        examples: report.examples.map((example) => ({ ...example, created: iso(example.created) })),
      };
    },
  });
}

/** Aborts when the caller's connection is gone before it has its response. */
function endOfCaller(reply: FastifyReply): AbortSignal {
  const caller = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableEnded) caller.abort(new GatewayError('EG_IMPOSSIBLE', 'the caller closed its connection'));
  });
  return caller.signal;
}

function editedRules(edited: ReturnType<RuleCompiler['edited']>): EditedRules {
  if (edited === null) {
    throw new GatewayError('EG_IMPOSSIBLE', 'routingRules.rulesEngineEnabled is false: no rule is asked', {
      field: 'changes',
    });
  }
  if (!('problems' in edited)) return edited;
  throw malformed(
    edited.problems.map(({ edit, ...problem }) => ({ ...problem, field: `changes[${edit}].rule.${problem.field}` })),
  );
}

function rangeOf(question: Static<typeof ImpactQuestion>, now: number): { readonly from: number; readonly to: number } {
  // The last instant belongs to the range.
  const to = question.to == null ? now + 1 : instant(question.to, 'to');
  const from = question.from == null ? to - DAY_MS : instant(question.from, 'from');
  if (from >= to) throw malformed([{ field: 'from', message: 'must be before to' }]);
  return { from, to };
}

const RFC3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$/i;

function instant(text: string, field: string): number {
  const milliseconds = RFC3339.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(milliseconds)) {
    throw malformed([{ field, message: 'must be a time of RFC 3339, such as 2026-11-23T08:00:00Z' }]);
  }
  return milliseconds;
}
