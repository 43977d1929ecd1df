import { type Static, Type } from 'typebox';
import { GatewayError, type Problem } from '../model/errors.ts';
import { resourceEstimates as estimateFields, isQueryType, queryTypes } from '../model/groupsFile/groupFields.ts';
import { checkGroupsFile } from '../model/groupsFile/groupsFile.ts';
import { environmentsOf, type GroupRows, type StoredGroups, storedGroups } from '../model/groupsFile/storedGroups.ts';
import type { GroupTables } from '../operator/registry/groupWrites.ts';
import { type GroupCriteria, type GroupSelection, matchingSelectors, selectGroup } from '../rules/groupSelection.ts';
import type { ApiContext } from './apiContext.ts';
import { malformed } from './errors.ts';
import { GroupExplanation } from './responses/routing.ts';
import { checkedBody, notFound, routes } from './routes.ts';
import { nullable, objectOf } from './schemas.ts';

const text = (maxLength: number, description: string) =>
  Type.Optional(nullable(Type.String({ maxLength }), description));
const texts = (description: string) =>
  Type.Optional(Type.Array(Type.String({ maxLength: 512 }), { maxItems: 256, description }));

/** Criteria of a query for an engine. */
const GroupQuestion = Type.Object(
  {
    useSchema: text(64, "Another database of the gateway's database server; its own when absent."),
    environment: text(128, "The engine's node.environment; needed where the tables hold groups of several."),
    user: Type.String({ minLength: 1, maxLength: 512, description: 'The user that the query runs as.' }),
    originalUser: text(512, 'The user that sent it; the same when absent.'),
    authenticatedUser: text(512, 'The user that was authenticated; the original one when absent.'),
    groups: texts('Groups of the user, as the engine knows them.'),
    source: text(512, 'Source of the query.'),
    clientTags: texts('Client tags of the query.'),
    session: Type.Optional(
      Type.Record(Type.String(), Type.String({ maxLength: 4_096 }), {
        maxProperties: 256,
        description: 'Session properties of the query. They do not count: engines choose without them.',
      }),
    ),
    queryType: text(64, `Resource group query type: ${queryTypes.join(', ')}, or another; unknown when absent.`),
    resourceEstimates: Type.Optional(
      objectOf(
        { additionalProperties: false, description: 'What the client sent as `X-Engine-Resource-Estimate`.' },
        {
          executionTime: text(64, 'A duration such as 5m.'),
          cpuTime: text(64, 'A duration such as 1h.'),
          peakMemory: text(64, 'A size such as 5GB.'),
        },
      ),
    ),
  },
  { additionalProperties: false, description: 'A query, as engines see it when they choose its resource group.' },
);
type GroupQuestion = Static<typeof GroupQuestion>;

/** Which resource group engines choose for a query, by the tables (docs/resource-groups.md#which-group-takes-a-query). */
export function groupExplainRoute(api: ApiContext, tables: GroupTables): void {
  routes(api, 'resource groups')('POST', '/api/resourcegroups/explain', {
    summary: 'Explains which resource group engines choose for a query',
    description: 'By the tables as they are; no engine is asked. Exact-match selectors are not looked at.',
    body: checkedBody(GroupQuestion),
    returns: ['The group, and how it came about.', GroupExplanation],
    errors: [404, 422, 503],
    handle: async ({ body }) => {
      const problems = questionProblems(body);
      if (problems.length > 0) throw malformed(problems);
      const rows = await tables.rows(body.useSchema || null);
      const environment = environmentOf(body, rows);
      const stored = storedGroups(rows, environment);
      const criteria = criteriaOf(body);
      const selection = await selectGroup(stored.file.selectors, criteria);
      return await explanation(environment, stored, selection, criteria);
    },
  });
}

function questionProblems({ queryType, resourceEstimates = {} }: GroupQuestion): readonly Problem[] {
  const problems: Problem[] = [];
  if (queryType != null && !isQueryType(queryType) && queryType.toUpperCase() !== 'UNKNOWN') {
    problems.push({ field: 'queryType', message: `must be one of ${queryTypes.join(', ')}, or UNKNOWN` });
  }
  for (const [name, read, form] of estimateFields) {
    const value = resourceEstimates[name] ?? null;
    if (value === null || read(value) !== null) continue;
    problems.push({ field: `resourceEstimates.${name}`, message: `must be ${form}` });
  }
  return problems;
}

/** The environment that is meant. @throws GatewayError EG_MALFORMED, EG_NOT_FOUND */
function environmentOf({ environment }: GroupQuestion, { groups }: GroupRows): string {
  const present = environmentsOf(groups);
  const [only, ...more] = present;
  if (only === undefined) throw notFound('The tables hold no resource group with an environment.');
  if (environment == null || environment === '') {
    if (more.length === 0) return only;
    const message = `environment is required: the tables hold groups of ${present.join(', ')}.`;
    throw new GatewayError('EG_MALFORMED', message, { field: 'environment' });
  }
  if (present.includes(environment)) return environment;
  const message = `There is no resource group of the environment ${JSON.stringify(environment)}; there are groups of ${present.join(', ')}.`;
  throw notFound(message, 'environment');
}

function criteriaOf(question: GroupQuestion): GroupCriteria {
  const { user, groups = [], source = null, clientTags = [], queryType = null, resourceEstimates = {} } = question;
  const originalUser = question.originalUser ?? user;
  const { executionTime = null, cpuTime = null, peakMemory = null } = resourceEstimates;
  return {
    ...{ user, originalUser, authenticatedUser: question.authenticatedUser ?? originalUser },
    ...{ groups, source, clientTags, queryType },
    resourceEstimates: { executionTime, cpuTime, peakMemory },
  };
}

const MAX_SELECTORS = 500;
const MAX_OF_A_PRIORITY = 100;
/** Most rows, and most characters of their expressions, that are checked for what engines cannot load: it takes time of the event loop. */
const MAX_CHECKED = 5_000;
const MAX_CHARACTERS = 65_536;

async function explanation(
  environment: string,
  { file, selectorRows, groupRows, problems }: StoredGroups,
  { results, outcome, selector, group, message }: GroupSelection,
  criteria: GroupCriteria,
): Promise<GroupExplanation> {
  const rowText = (index: number) => {
    const row = selectorRows[index];
    return {
      id: row?.id ?? null,
      priority: row?.priority ?? 0,
      resourceGroupId: row?.resourceGroupId ?? 0,
      group: file.selectors[index]?.group ?? '',
    };
  };
  const parts = selector === null ? [] : rowText(selector).group.split('.');
  const path = parts.flatMap((name, index) => {
    const row = groupRows.get(parts.slice(0, index + 1).join('.'));
    if (row === undefined) return [];
    const { resourceGroupId, softMemoryLimit, hardConcurrencyLimit, maxQueued } = row;
    return { resourceGroupId, name, softMemoryLimit, hardConcurrencyLimit, maxQueued };
  });
  const decisive = selector === null ? null : rowText(selector);
  const rivals = selectorRows.flatMap(({ priority, resourceGroupId }, index) => {
    const isRival = selector !== null && index > selector && priority === decisive?.priority;
    return isRival && resourceGroupId !== decisive?.resourceGroupId ? [index] : [];
  });
  const looked = rivals.slice(0, MAX_OF_A_PRIORITY);
  const matching = await matchingSelectors(
    looked.flatMap((index) => file.selectors[index] ?? []),
    criteria,
  );
  const samePriority = matching.map((place) => {
    const { priority: _same, ...other } = rowText(looked[place] ?? 0);
    return other;
  });
  const characters = file.selectors.reduce((sum, each) => sum + JSON.stringify(each).length, 0);
  const isLarge = groupRows.size + selectorRows.length > MAX_CHECKED || characters > MAX_CHARACTERS;
  const checked = isLarge
    ? [{ field: 'the tables', message: 'are too large to look for what engines cannot load: have export print them' }]
    : checkGroupsFile(file, false).problems;
  return {
    ...{ environment, outcome, message, selector },
    group: group === null ? null : [...group],
    path,
    selectors: results.slice(0, MAX_SELECTORS).map((result, index) => ({ ...rowText(index), ...result })),
    omitted: Math.max(0, results.length - MAX_SELECTORS),
    samePriority,
    problems: [...problems, ...checked].map(({ field, message: what }) => `${field} ${what}`),
  };
}
