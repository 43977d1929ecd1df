import type { FastifyInstance, FastifyReply } from 'fastify';
import { Type } from 'typebox';
import type { ReplayReport, ReplaySettings } from '../gateway/replay/replayJob.ts';
import type { ReplayThread } from '../gateway/replay/replayThread.ts';
import type { Clock } from '../model/clock.ts';
import { GatewayError } from '../model/errors.ts';
import { compileCheck } from '../model/validation.ts';
import type { RoutingRules } from '../operator/registry/routingRules.ts';
import type { EditedRules, RuleEdit } from '../rules/replay/editedRules.ts';
import type { RuleCompiler } from '../rules/ruleCompiler.ts';
import type { JdbcSettings } from '../store/jdbcUrl.ts';
import { nullable } from './answers/answer.ts';
import { RuleImpact } from './answers/impact.ts';
import { malformed } from './errors.ts';
import { jsonBody } from './jsonBody.ts';
import { ruleFields, wholeRule } from './ruleRoutes.ts';
import { answer, errorAnswers } from './schemas.ts';

export interface ImpactDependencies {
  readonly edited: RuleCompiler['edited'];
  readonly replays: Pick<ReplayThread, 'run'>;
  readonly database: JdbcSettings;
  readonly settings: ReplaySettings;
  readonly clock: Clock;
}

export interface ImpactRoutes extends ImpactDependencies {
  readonly rules: Pick<RoutingRules, 'byName'>;
}

/** Length of the range where no start is given, milliseconds. */
const DAY_MS = 24 * 3_600_000;
const MAX_QUERIES = 100_000;
/** Time of one call, milliseconds. */
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
      Type.Object(
        {
          name: Type.String({ minLength: 1, maxLength: 256, description: 'Name of the rule.' }),
          rule: nullable(
            Type.Object(ruleFields, { additionalProperties: false }),
            'The rule as it would be, in place of the one of its name or added; null: it would be deleted.',
          ),
        },
        { additionalProperties: false },
      ),
      { minItems: 1, maxItems: 200, description: 'What would change, all at once.' },
    ),
    queries: bound(MAX_QUERIES, `Most queries that are looked at, the newest first; ${MAX_QUERIES} by default.`),
    examples: bound(100, 'Most examples; 20 by default.'),
    top: bound(1_000, 'Most entries of each list; 20 by default.'),
  },
  { additionalProperties: false, description: 'A change of rules that is not made yet, and the queries to look at.' },
);
const checkQuestion = compileCheck(ImpactQuestion);

/** Route for the effect of a rule change on the queries of the history (docs/rest-api.md#impact-of-a-change). */
export async function impactRoutes(app: FastifyInstance, dependencies: ImpactRoutes): Promise<void> {
  const { edited, replays, database, settings, clock, rules } = dependencies;
  app.post(
    '/api/rules/impact',
    {
      config: { isRead: true },
      schema: {
        tags: ['routing rules'],
        summary: 'What a change of rules would do to the queries of the history',
        description:
          'Replays the queries of a range through the rules in force and through the changed ones, in a thread of its own. Nothing is changed. One call at a time; closing the connection ends it.',
        body: ImpactQuestion,
        response: {
          200: answer('Which queries would move.', RuleImpact),
          ...errorAnswers(400, 409, 413, 415, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const checked = checkQuestion(jsonBody(request));
      if (!checked.ok) throw malformed(checked.problems);
      const question = checked.value;
      const { user = null, source = null, queries = MAX_QUERIES, examples = 20, top = 20 } = question;
      const range = rangeOf(question, clock.now());
      const edits = question.changes.map(({ name, rule }, index): RuleEdit => {
        if (question.changes.findIndex((each) => each.name === name) < index) {
          throw malformed([{ field: `changes[${index}].name`, message: `is named twice; give each rule once` }]);
        }
        return { name, rule: rule === null ? null : wholeRule(name, rule, `changes[${index}].rule.`) };
      });
      for (const [index, { name, rule }] of edits.entries()) {
        if (rule === null) await requireRule(rules, name, index);
      }
      const report = await replays.run(
        {
          database,
          range: { ...range, ...(user === null ? {} : { user }), ...(source === null ? {} : { source }) },
          rules: editedRules(edited(edits)),
          settings,
          bounds: { queries, time: REPLAY_MS, top, examples },
        },
        endOfCaller(reply),
      );
      return reply.send(impactOf(report, range) satisfies RuleImpact);
    },
  );
}

/** Aborts when the caller's connection is gone before it has its response. */
function endOfCaller(reply: FastifyReply): AbortSignal {
  const caller = new AbortController();
  reply.raw.once('close', () => {
    if (!reply.raw.writableEnded) caller.abort(new GatewayError('EG_IMPOSSIBLE', 'the caller closed its connection'));
  });
  return caller.signal;
}

async function requireRule(rules: Pick<RoutingRules, 'byName'>, name: string, index: number): Promise<void> {
  if ((await rules.byName(name)) !== null) return;
  const message = `names no rule, so that nothing can be deleted; GET /api/rules lists the rules`;
  throw malformed([{ field: `changes[${index}].name`, message }]);
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

function rangeOf(
  question: { readonly from?: string | null; readonly to?: string | null },
  now: number,
): { readonly from: number; readonly to: number } {
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

function impactOf(report: ReplayReport, { from, to }: { readonly from: number; readonly to: number }): RuleImpact {
  const timeOf = (milliseconds: number): string => new Date(milliseconds).toISOString();
  return {
    ...report,
    from: timeOf(from),
    to: timeOf(to),
    oldest: report.oldest === null ? null : timeOf(report.oldest),
    examples: report.examples.map((example) => ({ ...example, created: timeOf(example.created) })),
  };
}
