import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { ProductNames } from '../../model/names.ts';
import { compileCheck } from '../../model/validation.ts';
import type { RoutingRules } from '../../operator/registry/routingRules.ts';
import { emptyAnswer, Force } from '../schemas.ts';
import { AuditedRules } from '../writes/auditedRules.ts';
import { webappFamily } from '../writes/writeFamily.ts';
import { bodyOf, type EnvelopeRoutes, envelopeErrors, failureAnswers, succeed, successAnswer } from './envelope.ts';

export interface RoutingRuleRoutes extends EnvelopeRoutes {
  readonly rules: Pick<RoutingRules, 'list' | 'update' | 'create' | 'delete'>;
  readonly names: ProductNames;
}

const tags = ['web application: routing rules'];
const fields = {
  name: Type.String({ minLength: 1, maxLength: 256, description: 'Identifies the rule.' }),
  condition: Type.String({ minLength: 1, maxLength: 65_536, description: 'Expression that is true or false.' }),
};
const action = Type.String({ maxLength: 65_536 });
/** Beside these fields, what lists show of a rule is accepted and ignored. */
const SentRule = Type.Object(
  {
    ...fields,
    description: Type.Optional(Type.Union([Type.String({ maxLength: 1024 }), Type.Null()], { description: 'Text.' })),
    priority: Type.Optional(
      Type.Union([Type.Integer({ minimum: -2_147_483_648, maximum: 2_147_483_647 }), Type.Null()], {
        description: 'Lower fires earlier; absent or null is 2147483647.',
      }),
    ),
    actions: Type.Array(action, { minItems: 1, maxItems: 64, description: 'Expressions run when it is true.' }),
  },
  { description: 'A routing rule.' },
);
const checkRule = compileCheck(SentRule);
const ListedRule = Type.Object({
  ...fields,
  description: Type.String(),
  priority: Type.Integer(),
  actions: Type.Array(action),
  origin: Type.Union([Type.Literal('file'), Type.Literal('resource')]),
  resource: Type.Optional(Type.String({ description: 'namespace/name of its resource.' })),
  routeTo: Type.Optional(Type.Record(Type.String(), Type.String())),
  deny: Type.Optional(Type.Record(Type.String(), Type.String())),
  onUnavailable: Type.Optional(Type.String()),
  stop: Type.Optional(Type.Boolean()),
  suspended: Type.Optional(Type.Boolean()),
  problem: Type.Optional(Type.String({ description: 'Why its present version is not in force.' })),
});
const list = Type.Array(ListedRule);

/** Routing rules: listing and replacing (docs/rules.md#changing-rules-by-rest). */
export async function routingRuleRoutes(app: FastifyInstance, options: RoutingRuleRoutes): Promise<void> {
  const { rules, names } = options;
  const ruleNamed = (name: string) => rules.list()?.find((listed) => listed.name === name) ?? null;
  const audited = new AuditedRules(rules, ruleNamed, names, webappFamily);
  envelopeErrors(app, options);

  app.get(
    '/webapp/getRoutingRules',
    {
      schema: {
        tags,
        summary: 'Lists the routing rules',
        description: 'Rules of the file in its order, then those of resources by name.',
        response: {
          200: successAnswer('The rules.', list),
          204: emptyAnswer('An external service computes the rules.'),
        },
      },
    },
    (_request, reply) => {
      const listed = rules.list();
      return listed === null ? reply.code(204).send() : succeed(reply, listed);
    },
  );

  app.post(
    '/webapp/updateRoutingRules',
    {
      schema: {
        tags,
        summary: 'Replaces the rule of that name',
        description:
          'Where it lives: its resource, or its document of the rules file, every other document of which stays byte for byte.',
        querystring: Force,
        body: SentRule,
        response: {
          200: successAnswer('All rules after the change, which is in force.', list),
          ...failureAnswers(400, 403, 404, 409, 413, 415, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const { name, condition, actions, description, priority } = bodyOf(request, checkRule);
      const rule = { name, condition, actions, description: description ?? '', priority: priority ?? null };
      await audited.update(request, reply, rule);
      return succeed(reply, rules.list() ?? []);
    },
  );
}
