import type { FastifyInstance, FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { routingRule } from '../kinds/routingRule/kind.ts';
import { Deny, RouteTo, RoutingRuleSpec } from '../kinds/routingRule/spec.ts';
import { GatewayError } from '../model/errors.ts';
import type { ProductNames } from '../model/names.ts';
import { compileCheck } from '../model/validation.ts';
import type { RoutingRules, RuleChange } from '../operator/registry/routingRules.ts';
import { nullable } from './answers/answer.ts';
import { RuleInventory, RuleState } from './answers/rules.ts';
import { malformed } from './errors.ts';
import { jsonBody } from './jsonBody.ts';
import { DeletedVersion, sentVersion } from './limitBodies.ts';
import { ListPage, listPageOf } from './page.ts';
import { notModified, revalidate } from './revalidation.ts';
import { answer, emptyWriteAnswers, errorAnswers, Force, reference, writeAnswers } from './schemas.ts';
import { AuditedRules } from './writes/auditedRules.ts';
import { apiFamily } from './writes/writeFamily.ts';

export interface RuleRoutes {
  readonly rules: Pick<RoutingRules, 'inventory' | 'byName' | 'update' | 'create' | 'delete'>;
  readonly names: ProductNames;
}

const tags = ['routing rules'];
const { condition, onUnavailable, stop, suspended } = RoutingRuleSpec.properties;

export const ruleFields = {
  description: Type.Optional(nullable(Type.String({ maxLength: 1024 }), 'Text for people.')),
  priority: Type.Optional(
    nullable(
      Type.Integer({ minimum: -2_147_483_648, maximum: 2_147_483_647 }),
      'Rules fire in ascending order, a later one overrules an earlier one; absent or null is 2147483647.',
    ),
  ),
  condition,
  actions: Type.Optional(
    nullable(
      Type.Array(Type.String({ minLength: 1, maxLength: 16_384 }), { maxItems: 64 }),
      'Expressions run when the condition is true. Exactly one of actions, routeTo and deny.',
    ),
  ),
  routeTo: Type.Optional(nullable(RouteTo)),
  deny: Type.Optional(nullable(Deny)),
  onUnavailable,
  stop,
  suspended,
};

const RuleUpdate = Type.Object(
  {
    ...ruleFields,
    version: Type.Optional(
      Type.String({ maxLength: 64, description: 'Of the rule as it was seen: 409 when it has changed.' }),
    ),
  },
  { $id: 'RuleUpdate', additionalProperties: false, description: 'A rule as a whole: what is absent has its default.' },
);
const checkUpdate = compileCheck(RuleUpdate);

/** A rule with its name: one to be created, or one that is stored nowhere, to be tried. */
export const RuleToTry = Type.Object(
  { name: Type.String({ minLength: 1, maxLength: 256 }), ...ruleFields },
  { additionalProperties: false, description: 'A rule: asked in place of the one of its name, or added.' },
);
const checkNew = compileCheck(RuleToTry);

const RuleInPath = Type.Object({
  name: Type.String({ minLength: 1, description: 'Name of the rule, percent-encoded.' }),
});

/**
 * Routing rules in firing order with status and mistakes, and changing them where they live
 * (docs/rest-api.md#routing-rules).
 */
export async function ruleRoutes(app: FastifyInstance, { rules, names }: RuleRoutes): Promise<void> {
  const audited = new AuditedRules(rules, (name) => rules.byName(name), names, apiFamily);
  revalidate(app);

  app.get(
    '/api/rules',
    {
      schema: {
        tags,
        summary: 'All routing rules in firing order, with origin, status and mistakes',
        description: 'Carries an ETag.',
        querystring: ListPage,
        response: { 200: answer('The rules.', RuleInventory), ...notModified, ...errorAnswers(400) },
      },
    },
    async (request, reply) => {
      const inventory: RuleInventory = await rules.inventory();
      return reply.send({ ...inventory, rules: listPageOf(inventory.rules, request.query, ({ name }) => name) });
    },
  );

  app.put(
    '/api/rules/:name',
    {
      schema: {
        tags,
        summary: 'Changes a rule where it lives',
        description:
          'Its resource, or its document of the rules file, which has no routeTo, deny, onUnavailable, stop and suspended.',
        params: RuleInPath,
        querystring: Force,
        body: RuleUpdate,
        response: {
          ...writeAnswers('The rule, in force.', reference(RuleState)),
          ...errorAnswers(400, 403, 404, 409, 413, 415, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const change = sentChange(request);
      const after = await audited.update(request, reply, change);
      if (after === null) throw new GatewayError('EG_CONFLICT', `the rule ${change.name} was deleted meanwhile`);
      return reply.send(after satisfies RuleState);
    },
  );

  app.post(
    '/api/rules',
    {
      schema: {
        tags,
        summary: 'Creates a rule',
        description: 'As a resource, also where there is a rules file. 409 where a rule has the name.',
        body: RuleToTry,
        response: {
          ...writeAnswers('The rule, in force.', reference(RuleState)),
          ...errorAnswers(400, 403, 409, 413, 415, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const checked = checkNew(jsonBody(request));
      if (!checked.ok) throw malformed(checked.problems);
      const { name, ...said } = checked.value;
      if (!isPrintable(name)) throw malformed([{ field: 'name', message: 'must not hold control characters' }]);
      const after = await audited.create(request, reply, wholeRule(name, said));
      if (after === null) throw new GatewayError('EG_CONFLICT', `the rule ${name} was deleted meanwhile`);
      return reply.send(after satisfies RuleState);
    },
  );

  app.delete(
    '/api/rules/:name',
    {
      schema: {
        tags,
        summary: 'Deletes a rule where it lives',
        description: 'Its resource, or its document of the rules file.',
        params: RuleInPath,
        querystring: DeletedVersion,
        response: { ...emptyWriteAnswers('Deleted.'), ...errorAnswers(400, 403, 404, 409, 413, 422, 503) },
      },
    },
    async (request, reply) => {
      const { name } = request.params as { name: string };
      await audited.delete(request, reply, name, sentVersion(request));
      return reply.send();
    },
  );
}

/** No database takes all control characters in a name, nor does a header. */
function isPrintable(name: string): boolean {
  return !/\p{Cc}/u.test(name);
}

function sentChange(request: FastifyRequest): RuleChange {
  const { name } = request.params as { name: string };
  const checked = checkUpdate(jsonBody(request));
  if (!checked.ok) throw malformed(checked.problems);
  const { version } = checked.value;
  return { ...wholeRule(name, checked.value), ...(version === undefined ? {} : { version }) };
}

/**
 * A rule with its defaults filled in.
 * @param path what fields are below, for messages: empty or `rule.`
 * @throws GatewayError EG_MALFORMED for what no resource could say
 */
export function wholeRule(
  name: string,
  draft: Omit<Static<typeof RuleToTry>, 'name'>,
  path = '',
): Required<Omit<RuleChange, 'version'>> {
  const { condition: text, routeTo = null, deny = null, onUnavailable: unavailable = 'fallback' } = draft;
  const all = draft.actions ?? [];
  const spec = {
    condition: text,
    ...(all.length === 0 ? {} : { actions: all }),
    ...(routeTo === null ? {} : { routeTo }),
    ...(deny === null ? {} : { deny }),
  };
  const problems = routingRule.specProblems(spec).map((problem) => ({
    ...problem,
    field: problem.field.replace(/^spec\./, path),
  }));
  if (problems.length > 0) throw malformed(problems);
  return {
    name,
    description: draft.description ?? '',
    priority: draft.priority ?? null,
    condition: text,
    actions: all,
    routeTo,
    deny,
    onUnavailable: unavailable,
    stop: draft.stop ?? false,
    suspended: draft.suspended ?? false,
  };
}
