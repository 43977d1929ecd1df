import { type Static, Type } from 'typebox';
import { routingRule } from '../kinds/routingRule/kind.ts';
import { Deny, RouteTo, RoutingRuleSpec } from '../kinds/routingRule/spec.ts';
import type { Clock } from '../model/clock.ts';
import { GatewayError } from '../model/errors.ts';
import type { WriteContext } from '../operator/registry/resourceWrites.ts';
import type { RoutingRules, RuleChange, RuleWrite } from '../operator/registry/routingRules.ts';
import type { RuleHits } from '../store/ruleHits.ts';
import { nullable } from './answers/response.ts';
import { RuleHitList, RuleInventory, RuleState } from './answers/rules.ts';
import { malformed } from './errors.ts';
import { type Call, ListPage, listPageOf, type RouteContext, routes, sent } from './routes.ts';
import { Force, iso, reference } from './schemas.ts';
import { DeletedVersion, makeChange, requireNone, Version } from './writes.ts';

const { condition, onUnavailable, stop, suspended } = RoutingRuleSpec.properties;
const Priority = Type.Integer({ minimum: -2_147_483_648, maximum: 2_147_483_647 });

export const ruleFields = {
  description: Type.Optional(nullable(Type.String({ maxLength: 1024 }), 'Text for people.')),
  priority: Type.Optional(
    nullable(
      Priority,
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
  { ...ruleFields, ...Version },
  { $id: 'RuleUpdate', additionalProperties: false, description: 'A rule as a whole: what is absent has its default.' },
);

/** A rule with its name: one to be created, or one that is stored nowhere, to be tried. */
export const RuleToTry = Type.Object(
  { name: Type.String({ minLength: 1, maxLength: 256 }), ...ruleFields },
  { additionalProperties: false, description: 'A rule: asked in place of the one of its name, or added.' },
);

const RuleInPath = Type.Object({
  name: Type.String({ minLength: 1, description: 'Name of the rule, percent-encoded.' }),
});

/** Makes a change of a rule by a call. Returns the rule as `ruleNamed` lists it afterwards; null: it is not there. */
async function changeRule<Rule extends object>(
  { names }: RouteContext,
  call: Call,
  ruleNamed: (name: string) => Rule | null,
  rule: RuleChange | string,
  write: (context: WriteContext) => Promise<RuleWrite>,
): Promise<Rule | null> {
  const [name, change] = typeof rule === 'string' ? [rule, null] : [rule.name, rule];
  const object = { object: `routing rule ${name}`, kind: routingRule.kind, name, before: ruleNamed(name) };
  await makeChange(names, call, object, write, () => ruleNamed(name) ?? change);
  return ruleNamed(name);
}

/**
 * Routing rules in firing order with status and mistakes, changing them where they live, and how many queries each
 * decided (docs/rest-api.md#routing-rules).
 */
export function ruleRoutes(
  api: RouteContext,
  rules: Pick<RoutingRules, 'inventory' | 'byName' | 'update' | 'create' | 'delete'>,
  { hits, clock }: { readonly hits: RuleHits; readonly clock: Clock },
): void {
  const route = routes(api, 'routing rules');
  const change = (call: Call, rule: RuleChange | string, write: (context: WriteContext) => Promise<RuleWrite>) =>
    changeRule(api, call, (name) => rules.byName(name), rule, write);
  const present = (name: string, rule: RuleState | null): RuleState => {
    if (rule !== null) return rule;
    throw new GatewayError('EG_CONFLICT', `the rule ${name} was deleted meanwhile`);
  };

  route('GET', '/api/rules', {
    summary: 'All routing rules in firing order, with origin, status and mistakes',
    description: 'Carries an ETag.',
    query: ListPage,
    returns: ['The rules.', RuleInventory],
    hasTag: true,
    handle: async ({ query }) => {
      const inventory: RuleInventory = await rules.inventory();
      return { ...inventory, rules: listPageOf(inventory.rules, query, ({ name }) => name) };
    },
  });

  route('PUT', '/api/rules/:name', {
    summary: 'Changes a rule where it lives',
    description:
      'Its resource, or its document of the rules file, which has no routeTo, deny, onUnavailable, stop and suspended.',
    params: RuleInPath,
    query: Force,
    body: sent(RuleUpdate),
    returns: ['The rule, in force.', reference(RuleState)],
    isPending: true,
    errors: [403, 404, 409, 422, 503],
    handle: async (call) => {
      const { version } = call.body;
      const { name } = call.params;
      const rule = { ...wholeRule(name, call.body), ...(version === undefined ? {} : { version }) };
      return present(name, await change(call, rule, (context) => rules.update(rule, context)));
    },
  });

  route('POST', '/api/rules', {
    summary: 'Creates a rule',
    description: 'As a resource, also where there is a rules file. 409 where a rule has the name.',
    body: sent(RuleToTry),
    returns: ['The rule, in force.', reference(RuleState)],
    isPending: true,
    errors: [403, 409, 422, 503],
    handle: async (call) => {
      const { name } = call.body;
      // No database takes all control characters in a name, nor does a header.
      if (/\p{Cc}/u.test(name)) throw malformed([{ field: 'name', message: 'must not hold control characters' }]);
      const rule = wholeRule(name, call.body);
      return present(name, await change(call, rule, () => rules.create(rule)));
    },
  });

  route('DELETE', '/api/rules/:name', {
    summary: 'Deletes a rule where it lives',
    description: 'Its resource, or its document of the rules file.',
    params: RuleInPath,
    query: DeletedVersion,
    returns: ['Deleted.', null],
    isPending: true,
    errors: [403, 404, 409, 413, 422, 503],
    handle: async (call) => {
      const { name } = call.params;
      await change(call, name, () => rules.delete(name, call.query.version));
    },
  });

  route('GET', '/api/ruleHits', {
    summary: 'How many queries each rule decided in the last hour and day',
    description: 'On all replicas. Rules that decided none are left out. Carries an ETag.',
    returns: ['The counts.', RuleHitList],
    hasTag: true,
    errors: [503],
    handle: async (): Promise<RuleHitList> => {
      const asOf = clock.now();
      return { asOf: iso(asOf), hits: await hits.before(asOf) };
    },
  });
}

/**
 * A rule with its defaults filled in.
 * @param path what fields are below, for messages: empty or `rule.`
 * @throws GatewayError EG_MALFORMED for what no resource can contain
 */
export function wholeRule(
  name: string,
  draft: Omit<Static<typeof RuleToTry>, 'name'>,
  path = '',
): Required<Omit<RuleChange, 'version'>> {
  const { condition: text, routeTo = null, deny = null, onUnavailable: unavailable = 'fallback' } = draft;
  const actions = draft.actions ?? [];
  const spec = {
    condition: text,
    ...(actions.length === 0 ? {} : { actions }),
    ...(routeTo === null ? {} : { routeTo }),
    ...(deny === null ? {} : { deny }),
  };
  requireNone(routingRule.specProblems(spec), path);
  return {
    ...{ name, description: draft.description ?? '', priority: draft.priority ?? null, condition: text, actions },
    ...{ routeTo, deny, onUnavailable: unavailable, stop: draft.stop ?? false, suspended: draft.suspended ?? false },
  };
}

const webappFields = {
  name: Type.String({ minLength: 1, maxLength: 256, description: 'Identifies the rule.' }),
  condition: Type.String({ minLength: 1, maxLength: 65_536, description: 'Expression that is true or false.' }),
};
const Action = Type.String({ maxLength: 65_536 });
/** In addition to these fields, what lists show of a rule is accepted and ignored. */
const SentRule = Type.Object(
  {
    ...webappFields,
    description: Type.Optional(nullable(Type.String({ maxLength: 1024 }), 'Text.')),
    priority: Type.Optional(nullable(Priority, 'Lower fires earlier; absent or null is 2147483647.')),
    actions: Type.Array(Action, { minItems: 1, maxItems: 64, description: 'Expressions run when it is true.' }),
  },
  { description: 'A routing rule.' },
);
const ListedRules = Type.Array(
  Type.Object({
    ...webappFields,
    description: Type.String(),
    priority: Type.Integer(),
    actions: Type.Array(Action),
    origin: Type.Union([Type.Literal('file'), Type.Literal('resource')]),
    resource: Type.Optional(Type.String({ description: 'namespace/name of its resource.' })),
    routeTo: Type.Optional(Type.Record(Type.String(), Type.String())),
    deny: Type.Optional(Type.Record(Type.String(), Type.String())),
    onUnavailable: Type.Optional(Type.String()),
    stop: Type.Optional(Type.Boolean()),
    suspended: Type.Optional(Type.Boolean()),
    problem: Type.Optional(Type.String({ description: 'Why its present version is not in force.' })),
  }),
);

/** Routing rules of the web application: listing and replacing (docs/rules.md#changing-rules-by-rest). */
export function webappRuleRoutes(api: RouteContext, rules: Pick<RoutingRules, 'list' | 'update'>): void {
  const route = routes(api, 'web application: routing rules', 'envelope');

  route('GET', '/webapp/getRoutingRules', {
    summary: 'Lists the routing rules',
    description: 'Rules of the file in its order, then those of resources by name.',
    returns: ['The rules.', ListedRules],
    responses: { 204: Type.Null({ description: 'An external service computes the rules.' }) },
    handle: ({ reply }) => rules.list() ?? reply.code(204).send(),
  });

  route('POST', '/webapp/updateRoutingRules', {
    summary: 'Replaces the rule of that name',
    description:
      'Where it lives: its resource, or its document of the rules file, every other document of which stays byte for byte.',
    query: Force,
    body: sent(SentRule),
    returns: ['All rules after the change, which is in force.', ListedRules],
    errors: [403, 404, 409, 422, 503],
    handle: async (call) => {
      const { name, condition: text, actions, description, priority } = call.body;
      const rule = { name, condition: text, actions, description: description ?? '', priority: priority ?? null };
      const ruleNamed = () => rules.list()?.find((listed) => listed.name === name) ?? null;
      await changeRule(api, call, ruleNamed, rule, (context) => rules.update(rule, context));
      return rules.list() ?? [];
    },
  });
}
