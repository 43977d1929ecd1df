import { type Static, Type } from 'typebox';
import { routingRule } from '../kinds/routingRule/kind.ts';
import { Deny, RouteTo, RoutingRuleSpec } from '../kinds/routingRule/spec.ts';
import { GatewayError } from '../model/errors.ts';
import type { WriteContext } from '../operator/registry/resourceWrites.ts';
import type { RoutingRules, RuleChange, RuleWrite } from '../operator/registry/routingRules.ts';
import type { ApiContext, StoreContext } from './apiContext.ts';
import { changeRules } from './auth/endpointAccess.ts';
import { mayList, permissions } from './auth/guard.ts';
import { malformed } from './errors.ts';
import { RuleEffect } from './responses/routing.ts';
import { type Call, checkedBody, ListPage, listPageOf, ofNamespace, ofNamespaces, routes } from './routes.ts';
import {
  Creation,
  count,
  Force,
  flagField,
  iso,
  list,
  nullable,
  objectOf,
  objectOrNull,
  objects,
  oneOf,
  type ResponseBody,
  reference,
  textField,
  textOrNull,
  time,
} from './schemas.ts';
import { DeletedVersion, makeChange, requireNone, Version } from './writes.ts';

const { condition, whenUnavailable, stop, suspend } = RoutingRuleSpec.properties;
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
  whenUnavailable,
  stop,
  suspend,
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
  { names }: ApiContext,
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

/** Namespace of a rule's resource; undefined in a file. */
function namespaceOf({ resource }: Pick<RuleState, 'resource'>): string | undefined {
  return resource?.split('/')[0];
}

/**
 * Routing rules in firing order with status and mistakes, changing them where they live, and how many queries each
 * decided (docs/rest-api.md#routing-rules).
 */
export function ruleRoutes(api: StoreContext, rules: RoutingRules): void {
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
    options: ofNamespaces,
    handle: async ({ query, request }) => {
      const { engine, file, rules: all }: RuleInventory = await rules.inventory();
      const shown = all.filter((rule) => mayList(request, namespaceOf(rule)));
      const mayChange = await permissions(request, changeRules, shown.map(namespaceOf));
      const page = listPageOf(shown, query, ({ name }) => name);
      return {
        engine,
        // The rules file is the platform's.
        file: request.namespaces === null ? file : null,
        rules: page.map((rule) => ({ ...rule, mayChange: mayChange(namespaceOf(rule)) })),
      };
    },
  });

  route('PUT', '/api/rules/:name', {
    summary: 'Changes a rule where it lives',
    description:
      'Its resource, or its document of the rules file, which has no routeTo, deny, whenUnavailable, stop and suspend.',
    params: RuleInPath,
    query: Force,
    body: checkedBody(RuleUpdate),
    returns: ['The rule, in force.', reference(RuleState)],
    isPending: true,
    errors: [403, 404, 409, 422, 503],
    options: ofNamespace,
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
    query: Creation,
    body: checkedBody(RuleToTry),
    returns: ['The rule, in force.', reference(RuleState)],
    isPending: true,
    errors: [403, 409, 422, 503],
    options: ofNamespace,
    handle: async (call) => {
      const { name } = call.body;
      // No database takes all control characters in a name, nor does a header.
      if (/\p{Cc}/u.test(name)) throw malformed([{ field: 'name', message: 'must not hold control characters' }]);
      const rule = wholeRule(name, call.body);
      return present(name, await change(call, rule, (context) => rules.create(rule, context)));
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
    options: ofNamespace,
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
    options: ofNamespaces,
    handle: async ({ request }): Promise<RuleHitList> => {
      const asOf = api.clock.now();
      const hits = await api.store.ruleHits.before(asOf);
      if (request.namespaces === null) return { asOf: iso(asOf), hits };
      const { rules: all } = await rules.inventory();
      const shown = new Set(all.flatMap((rule) => (mayList(request, namespaceOf(rule)) ? [rule.name] : [])));
      return { asOf: iso(asOf), hits: hits.filter(({ rule }) => shown.has(rule)) };
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
  const { condition: text, routeTo = null, deny = null, whenUnavailable: unavailable = 'Fallback' } = draft;
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
    ...{ routeTo, deny, whenUnavailable: unavailable, stop: draft.stop ?? false, suspend: draft.suspend ?? false },
  };
}

const webappFields = {
  name: Type.String({ minLength: 1, maxLength: 256, description: 'Identifies the rule.' }),
  condition: Type.String({ minLength: 1, maxLength: 65_536, description: 'Expression that is true or false.' }),
};
const Action = Type.String({ maxLength: 65_536 });
/** In addition to these fields, what lists show of a rule is accepted and ignored. */
const RuleBody = objectOf(
  { description: 'A routing rule.' },
  {
    ...webappFields,
    description: Type.Optional(nullable(Type.String({ maxLength: 1024 }), 'Text.')),
    priority: Type.Optional(nullable(Priority, 'Lower fires earlier; absent or null is 2147483647.')),
    actions: Type.Array(Action, { minItems: 1, maxItems: 64, description: 'Expressions run when it is true.' }),
  },
);
const ListedRules = Type.Array(
  Type.Object({
    ...webappFields,
    description: Type.String(),
    priority: Type.Integer(),
    actions: Type.Array(Action),
    origin: Type.Union([Type.Literal('file'), Type.Literal('resource')]),
    resource: Type.Optional(textField('namespace/name of its resource.')),
    routeTo: Type.Optional(Type.Record(Type.String(), Type.String())),
    deny: Type.Optional(Type.Record(Type.String(), Type.String())),
    whenUnavailable: Type.Optional(Type.String()),
    stop: Type.Optional(Type.Boolean()),
    suspend: Type.Optional(Type.Boolean()),
    problem: Type.Optional(textField('Why its present version is not in force.')),
  }),
);

/** Routing rules of the web application: listing and replacing (docs/rules.md#changing-rules-by-rest). */
export function webappRuleRoutes(api: ApiContext, rules: RoutingRules): void {
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
    body: checkedBody(RuleBody),
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

const Problem = Type.Object({
  field: textField('condition, actions[0], …'),
  message: Type.String(),
  line: Type.Optional(Type.Integer()),
  column: Type.Optional(Type.Integer()),
});

export const RuleState = objectOf(
  { $id: 'RuleState', description: 'A rule, where it lives and what became of it.' },
  {
    name: Type.String(),
    description: Type.String(),
    priority: Type.Integer(),
    condition: Type.String(),
    actions: Type.Array(Type.String()),
    routeTo: nullable(RouteTo),
    deny: nullable(Deny),
    whenUnavailable: oneOf(['Fallback', 'Reject']),
    stop: Type.Boolean(),
    suspend: Type.Boolean(),
    origin: oneOf(['file', 'resource']),
    resource: textOrNull('namespace/name of its resource; null in a file.'),
    place: textField('Where it is written.'),
    managers: Type.Array(Type.Object({ manager: Type.String(), fields: Type.Array(Type.String()) })),
    version: textField('Changes whenever what it says does.'),
    position: nullable(Type.Integer(), 'When it is asked, from 1; null: it is not.'),
    unresolved: textOrNull(
      'Why nothing is where it routes to: the group it names has no clusters, or there is no such cluster; null: it is there.',
    ),
    status: textField(
      'Programmed, PreviousVersion (its last good version decides), NotAccepted, Suspended, FileFailed, RulesEngineDisabled, ExternalRules.',
    ),
    message: textField('The status in a sentence.'),
    problems: list(Problem, 'Why what it says now does not compile.'),
    warnings: list(
      Problem,
      'What of it may not be meant as it runs: it will fail, or Trino Gateway does something else.',
    ),
    mayChange: Type.Optional(flagField('In lists: the caller may change and delete it.')),
  },
);
export type RuleState = ResponseBody<typeof RuleState>;

const FileProblem = Type.Object({
  effect: oneOf(
    ['fileNotLoaded', 'ruleLeftOut', 'warning'],
    'No rule of the file is in force; its rule alone is left out; or nothing.',
  ),
  path: Type.String(),
  document: nullable(Type.Integer()),
  line: Type.Integer(),
  column: Type.Integer(),
  rule: textOrNull(),
  message: Type.String(),
});

export const RuleInventory = Type.Object({
  engine: oneOf(['on', 'off', 'external'], 'external: a service decides, and only deny rules are asked beside it.'),
  file: objectOrNull('The rules file; null: none is configured.', {
    path: Type.String(),
    state: oneOf(['absent', 'loaded', 'failed', 'keptLast']),
    problems: list(FileProblem, 'Its mistakes, with places in the file.'),
    warnings: list(FileProblem, 'What may not be meant as it runs, 200 at most.'),
  }),
  rules: list(reference(RuleState), 'In the order in which they are asked.'),
});
export type RuleInventory = ResponseBody<typeof RuleInventory>;

export const RuleHitList = Type.Object({
  asOf: textField('When they were counted, RFC 3339.'),
  hits: Type.Array(
    Type.Object({
      rule: textField('Name of a rule that decided queries; those that decided none are left out.'),
      lastHour: Type.Integer(),
      lastDay: Type.Integer(),
    }),
  ),
});
export type RuleHitList = ResponseBody<typeof RuleHitList>;

/** Destination or rejection of a query. */
const ImpactTarget = Type.Object(
  {
    kind: oneOf(['group', 'cluster', 'denied', 'refused', 'bound', 'uncertain']),
    name: textOrNull('Of the routing group, or of the cluster that a rule chooses; null for the others.'),
  },
  {
    description:
      '`refused`: a rule fails (onRuleError: reject). `bound`: goes to the cluster of its transaction, or of the query that it kills. `uncertain`: one of several, as a rule could not be replayed.',
  },
);

const shares = (what: string) =>
  objects(`By ${what}, those with most queries that move; others than these are left out.`, {
    name: textOrNull(`Null: queries without a ${what}.`),
    queries: count('Of the range.'),
    moved: count('Those that move.'),
    unknown: count('Those that may move.'),
  });

export const RuleImpact = Type.Object({
  from: time('Start of the range.'),
  to: time('End of the range.'),
  queries: count('Queries that were looked at, the newest first.'),
  unmoved: count('Those that go where they went.'),
  moved: count('Those that go elsewhere, or are denied or not denied any more.'),
  unknown: count('Those of which that depends on what the history does not hold.'),
  cutBy: nullable(
    oneOf(['queries', 'time']),
    'Why not all queries of the range were looked at: there are too many, or the time was over. Null: all were.',
  ),
  oldest: nullable(Type.String({ format: 'date-time' }), 'Time of the oldest query that was looked at.'),
  moves: objects('From where to where, most queries first.', {
    from: ImpactTarget,
    to: ImpactTarget,
    queries: count('Queries.'),
  }),
  users: shares('user'),
  sources: shares('source'),
  unreplayed: objects('Rules whose condition or actions could not be replayed for some queries.', {
    rule: textField('Empty: the routing group header, which decides where there are no rules.'),
    reads: list(Type.String(), 'What it reads that the history does not hold.'),
    queries: count('Queries for which it was asked and could not be replayed.'),
    unknown: count('Those of them that count as unknown.'),
  }),
  examples: objects('Queries that move, the newest of each move.', {
    queryId: Type.String(),
    user: textOrNull(),
    source: textOrNull(),
    created: Type.String({ format: 'date-time' }),
    queryText: textField('The first 500 characters.'),
    from: ImpactTarget,
    to: ImpactTarget,
    before: list(
      RuleEffect,
      'What the rules do now; of more than 50 rules those that do something, and those that change.',
    ),
    after: list(RuleEffect, 'What they would do.'),
    assumed: list(
      Type.String(),
      'Rules that could not be replayed: the query moves however they come out, and the traces show one way.',
    ),
  }),
  unknownExamples: list(Type.String(), 'Ids of queries that count as unknown.'),
  estimatesOf: nullable(
    Type.String({ format: 'date-time' }),
    'Time up to which runs are counted in the estimates: those of now, for all queries. Null: no rule reads one.',
  ),
  milliseconds: count('Time that it took.'),
});
export type RuleImpact = ResponseBody<typeof RuleImpact>;
