import { expect } from 'vitest';
import type { OperationRows } from './rows.ts';

/** A query that waits; nobody holds it. */
export const queuedId = '20261121_000000_000000000000_queue';
/** A statement that lost two clusters. */
export const quarantined = {
  ...{ group: 'adhoc', user: 'ann', qualifier: 'c.s' },
  ...{ exactDigest: '00000000000000e1', digest: '00000000000000d1' },
};
const inQuarantine = { routingGroup: 'adhoc', digest: quarantined.exactDigest };

/** Other operations have added clusters and groups. */
const listsAdhoc = expect.arrayContaining([expect.objectContaining({ name: 'adhoc', spec: null })]);

const rule = { condition: 'true', actions: ['result.put("routingGroup", "adhoc")'] };
const named = { path: { name: 'r' } };
const added = { condition: 'false', priority: 9, routeTo: { routingGroup: 'adhoc' } };

const etl = { path: { name: 'etl' } };
const queue = { maxRunningQueries: 5, queue: { maxQueuedQueries: 10 } };
const perUser = { path: { namespace: 'default', name: 'u' } };
const match = { everyone: true };
const rollout = { routingGroup: 'g', stable: 'a', candidate: 'b', steps: [{ weight: 5 }] };
const replay = {
  ...{ control: 'a', candidate: 'b', from: { history: {} }, replayAs: { username: 'replay' } },
};
const limit = { match, per: 'User', maxRunningQueries: 10 };

/** The state at a glance, clusters with their resources, and rules with theirs. */
export const stateRows: Record<string, OperationRows> = {
  'GET /api/overview': {
    success: [{ why: 'answers', status: 200, shows: { notReadyBecause: null, source: { available: true } } }],
    unknown: null,
    conflict: null,
  },
  'GET /api/queries': {
    success: [
      { why: 'lists none', query: 'from=0&to=1', status: 200, shows: { queries: [], next: null, keptHours: 720 } },
      { why: 'filters', query: 'state=FAILED,LOST&errorType=USER_ERROR&limit=1&user=%00', status: 200 },
    ],
    unknown: null,
    conflict: null,
    malformed: ['state=DONE', 'from=x', 'limit=x', 'after=x', 'minElapsedMillis=-1'].map((query) => ({
      why: query,
      query,
      status: 400,
    })),
  },
  'GET /api/queries/export': {
    success: [{ why: 'exports none', query: 'from=0&to=1', status: 200 }],
    unknown: null,
    conflict: null,
    malformed: ['format=xml', 'to=x'].map((query) => ({ why: query, query, status: 400 })),
  },
  'GET /api/statistics': {
    success: [{ why: 'counts none', query: 'by=rule&from=0&to=1', status: 200, shows: { by: 'rule', values: [] } }],
    unknown: null,
    conflict: null,
    malformed: ['by=text', 'from=-1', 'limit=x'].map((query) => ({ why: query, query, status: 400 })),
  },
  'GET /api/quarantine': {
    success: [
      { why: 'lists', status: 200, shows: { quarantined: [expect.objectContaining({ clusters: ['c1', 'c2'] })] } },
    ],
    unknown: null,
    conflict: null,
  },
  'DELETE /api/quarantine/{routingGroup}/{digest}': {
    success: [{ why: 'releases', path: inQuarantine, status: 204 }],
    unknown: [{ why: 'another group', path: { ...inQuarantine, routingGroup: 'etl' }, status: 404 }],
    conflict: null,
    malformed: [{ why: 'no digest', path: { ...inQuarantine, digest: 'x' }, status: 400 }],
  },
  'GET /api/digests': {
    success: [{ why: 'counts none', query: 'top=growth&since=0&until=1', status: 200, shows: { digests: [] } }],
    unknown: null,
    conflict: null,
    malformed: ['top=text', 'since=-1', 'limit=x', 'since=5&until=5'].map((query) => ({
      why: query,
      query,
      status: 400,
    })),
  },
  'GET /api/estimates': {
    success: [{ why: 'counts none', query: 'since=0&until=1&mediumFrom=2&largeFrom=3', status: 200, shows: {} }],
    unknown: null,
    conflict: null,
    malformed: ['since=-1', 'since=5&until=5', 'mediumFrom=5&largeFrom=5'].map((query) => ({
      why: query,
      query,
      status: 400,
    })),
  },
  'GET /api/digests/{digest}': {
    success: [{ why: 'has no queries', path: { digest: '0123456789abcdef' }, status: 404 }],
    unknown: [{ why: 'an unknown digest', path: { digest: 'fedcba9876543210' }, status: 404 }],
    conflict: null,
    malformed: [{ why: 'since', path: { digest: '0123456789abcdef' }, query: 'since=x', status: 400 }],
  },
  'GET /api/overview/queries': {
    success: [
      { why: 'counts an hour', status: 200, shows: { intervalMs: 60_000 } },
      { why: 'counts a day', query: 'minutes=1440&lines=1', status: 200, shows: { intervalMs: 360_000 } },
    ],
    unknown: null,
    conflict: null,
    malformed: ['minutes=0', 'minutes=-1', 'minutes=x', 'minutes=', 'lines=0'].map((query) => ({
      why: query,
      query,
      status: 400,
      field: query.split('=')[0] as string,
    })),
  },
  'GET /api/overview/rates': {
    success: [
      { why: 'counts an hour', status: 200, shows: { intervalMs: 60_000, keptHours: 720 } },
      { why: 'counts a day', query: 'minutes=1440', status: 200, shows: { intervalMs: 1_440_000 } },
    ],
    unknown: null,
    conflict: null,
    malformed: ['minutes=0', 'minutes=x'].map((query) => ({ why: query, query, status: 400, field: 'minutes' })),
  },
  'GET /api/overview/problems': {
    success: [{ why: 'lists', status: 200 }],
    unknown: null,
    conflict: null,
  },
  'GET /api/pages': {
    success: [
      {
        why: 'lists',
        status: 200,
        shows: {
          pages: [
            'dashboard',
            'cluster',
            'history',
            'workload',
            'replays',
            'routing-rules',
            'limits',
            'queue',
            'audit',
            'resource-group',
          ],
        },
      },
    ],
    unknown: null,
    conflict: null,
  },
  'GET /api/clusters': {
    success: [{ why: 'lists', status: 200 }],
    unknown: null,
    conflict: null,
  },
  'GET /api/clusters/{name}': {
    success: [{ why: 'shows it', path: { name: 'c1' }, status: 200, shows: { name: 'c1', sharesUrlWith: [] } }],
    unknown: [{ why: 'an unknown name', path: { name: 'nobody' }, status: 404, field: 'name' }],
    conflict: null,
    malformed: [{ why: 'a slash', path: { name: 'a/b' }, status: 404, field: 'name' }],
  },
  'PUT /api/clusters/{name}/active': {
    success: [
      { why: 'switches off', path: { name: 'c1' }, body: { active: false }, status: 200, shows: { active: false } },
      { why: 'switches on', path: { name: 'c1' }, body: { active: true }, status: 200, shows: { active: true } },
    ],
    unknown: [{ why: 'an unknown name', path: { name: 'nobody' }, body: { active: true }, status: 404, field: 'name' }],
    conflict: [
      {
        why: 'it was switched since',
        path: { name: 'c1' },
        body: { active: false, version: 'before' },
        status: 409,
        field: 'version',
      },
    ],
    malformed: [{ why: 'a slash', path: { name: 'a/b' }, body: { active: true }, status: 404, field: 'name' }],
  },
  'GET /api/groups': {
    success: [{ why: 'lists', status: 200, shows: listsAdhoc }],
    unknown: null,
    conflict: null,
  },
  'GET /api/groups/{name}': {
    success: [{ why: 'answers', path: { name: 'adhoc' }, status: 200, shows: { name: 'adhoc', running: null } }],
    unknown: [{ why: 'an unknown name', path: { name: 'nobody' }, status: 404, field: 'name' }],
    conflict: null,
  },
  'PUT /api/groups/{name}': {
    success: [
      {
        ...etl,
        why: 'creates',
        body: queue,
        status: 200,
        shows: { spec: queue, inForce: true, resource: { name: 'etl' } },
      },
      { ...etl, why: 'replaces', body: {}, status: 200, shows: { spec: {}, clusters: [] } },
    ],
    unknown: null,
    conflict: [{ ...etl, why: 'not what was seen', body: { ...queue, version: 'x' }, status: 409, field: 'version' }],
    malformed: [
      { ...etl, why: 'itself', body: { fallbacks: ['etl'] }, status: 400, field: 'fallbacks' },
      { ...etl, why: 'too long', body: { queue: { maxWait: '25h' } }, status: 400, field: 'queue.maxWait' },
      { ...etl, why: 'another name', body: { name: 'x' }, status: 400, field: 'name' },
    ],
  },
  'DELETE /api/groups/{name}': {
    success: [{ ...etl, why: 'deletes', status: 200, first: [['PUT /api/groups/{name}', { ...etl, body: queue }]] }],
    unknown: [{ why: 'nothing is declared', path: { name: 'adhoc' }, status: 404, field: 'name' }],
    conflict: [
      {
        ...etl,
        why: 'not what was seen',
        query: 'version=x',
        status: 409,
        field: 'version',
        first: [['PUT /api/groups/{name}', { ...etl, body: queue }]],
      },
    ],
  },
  'GET /api/queue': {
    success: [{ why: 'lists', status: 200, shows: { total: 1, queries: [{ id: queuedId, routingGroup: 'adhoc' }] } }],
    unknown: null,
    conflict: null,
  },
  'POST /api/queue/{id}/first': {
    success: [{ why: 'moves one', path: { id: queuedId }, status: 204 }],
    unknown: [{ why: 'an unknown id', path: { id: '20261121_000000_000000000001_queue' }, status: 404 }],
    conflict: null,
  },
  'DELETE /api/queue/{id}': {
    success: [{ why: 'takes one out', path: { id: queuedId }, status: 204 }],
    unknown: [{ why: 'an unknown id', path: { id: '20261121_000000_000000000001_queue' }, status: 404 }],
    conflict: null,
  },
  'GET /api/limits': {
    success: [
      {
        why: 'lists',
        status: 200,
        shows: [{ namespace: 'default', name: 'u', spec: limit }],
        first: [['PUT /api/limits/{namespace}/{name}', { ...perUser, body: limit }]],
      },
    ],
    unknown: null,
    conflict: null,
  },
  'GET /api/limits/{namespace}/{name}': {
    success: [
      {
        ...perUser,
        why: 'answers',
        status: 200,
        shows: { name: 'u', inForce: true },
        first: [['PUT /api/limits/{namespace}/{name}', { ...perUser, body: limit }]],
      },
    ],
    unknown: [{ why: 'an unknown name', path: { namespace: 'default', name: 'nobody' }, status: 404, field: 'name' }],
    conflict: null,
  },
  'PUT /api/limits/{namespace}/{name}': {
    success: [{ ...perUser, why: 'creates', body: limit, status: 200, shows: { spec: limit, inForce: true } }],
    unknown: null,
    conflict: [
      { ...perUser, why: 'not what was seen', body: { ...limit, version: 'x' }, status: 409, field: 'version' },
    ],
    malformed: [
      { ...perUser, why: 'nothing', body: { match, per: 'All' }, status: 400, field: 'maxRunningQueries' },
      {
        ...perUser,
        why: 'no regular expression',
        body: { ...limit, match: { users: [{ type: 'RegularExpression', value: '(' }] } },
        status: 400,
        field: 'match.users[0].value',
      },
    ],
  },
  'DELETE /api/limits/{namespace}/{name}': {
    success: [
      {
        ...perUser,
        why: 'deletes',
        status: 200,
        first: [['PUT /api/limits/{namespace}/{name}', { ...perUser, body: limit }]],
      },
    ],
    unknown: [{ why: 'an unknown name', path: { namespace: 'default', name: 'nobody' }, status: 404, field: 'name' }],
    conflict: [
      {
        ...perUser,
        why: 'not what was seen',
        query: 'version=x',
        status: 409,
        field: 'version',
        first: [['PUT /api/limits/{namespace}/{name}', { ...perUser, body: limit }]],
      },
    ],
  },
  'GET /api/replays': {
    success: [
      {
        why: 'lists',
        status: 200,
        shows: [{ namespace: 'default', name: 'u', spec: replay, progress: null }],
        first: [['PUT /api/replays/{namespace}/{name}', { ...perUser, body: replay }]],
      },
    ],
    unknown: null,
    conflict: null,
  },
  'GET /api/replays/{namespace}/{name}': {
    success: [
      {
        ...perUser,
        why: 'responds',
        status: 200,
        shows: { name: 'u', inForce: true, message: 'there is no cluster a' },
        first: [['PUT /api/replays/{namespace}/{name}', { ...perUser, body: replay }]],
      },
    ],
    unknown: [{ why: 'an unknown name', path: { namespace: 'default', name: 'other' }, status: 404, field: 'name' }],
    conflict: null,
  },
  'GET /api/replays/{namespace}/{name}/report': {
    success: [
      {
        ...perUser,
        why: 'responds',
        status: 200,
        shows: { replay: { name: 'u' }, digests: [] },
        first: [['PUT /api/replays/{namespace}/{name}', { ...perUser, body: replay }]],
      },
    ],
    unknown: [{ why: 'an unknown name', path: { namespace: 'default', name: 'other' }, status: 404, field: 'name' }],
    conflict: null,
  },
  'PUT /api/replays/{namespace}/{name}': {
    success: [{ ...perUser, why: 'creates', body: replay, status: 200, shows: { spec: replay, inForce: true } }],
    unknown: null,
    conflict: [
      { ...perUser, why: 'not what was seen', body: { ...replay, version: 'x' }, status: 409, field: 'version' },
    ],
    malformed: [
      { ...perUser, why: 'one cluster', body: { ...replay, candidate: 'a' }, status: 400, field: 'candidate' },
      {
        ...perUser,
        why: 'a file',
        body: { ...replay, replayAs: { username: 'replay', password: '${FILE:/etc/passwd}' } },
        status: 400,
        field: 'replayAs.password',
      },
    ],
  },
  'DELETE /api/replays/{namespace}/{name}': {
    success: [
      {
        ...perUser,
        why: 'deletes',
        status: 200,
        first: [['PUT /api/replays/{namespace}/{name}', { ...perUser, body: replay }]],
      },
    ],
    unknown: [{ why: 'an unknown name', path: { namespace: 'default', name: 'other' }, status: 404, field: 'name' }],
    conflict: [
      {
        ...perUser,
        why: 'not what was seen',
        query: 'version=x',
        status: 409,
        field: 'version',
        first: [['PUT /api/replays/{namespace}/{name}', { ...perUser, body: replay }]],
      },
    ],
  },
  'GET /api/rollouts': {
    success: [
      {
        why: 'lists',
        status: 200,
        shows: [{ namespace: 'default', name: 'u', spec: rollout }],
        first: [['PUT /api/rollouts/{namespace}/{name}', { ...perUser, body: rollout }]],
      },
    ],
    unknown: null,
    conflict: null,
  },
  'GET /api/rollouts/{namespace}/{name}': {
    success: [
      {
        ...perUser,
        why: 'responds',
        status: 200,
        shows: { name: 'u', inForce: true },
        first: [['PUT /api/rollouts/{namespace}/{name}', { ...perUser, body: rollout }]],
      },
    ],
    unknown: [{ why: 'an unknown name', path: { namespace: 'default', name: 'other' }, status: 404, field: 'name' }],
    conflict: null,
  },
  'PUT /api/rollouts/{namespace}/{name}': {
    success: [{ ...perUser, why: 'creates', body: rollout, status: 200, shows: { spec: rollout, inForce: true } }],
    unknown: null,
    conflict: [
      { ...perUser, why: 'not what was seen', body: { ...rollout, version: 'x' }, status: 409, field: 'version' },
    ],
    malformed: [
      { ...perUser, why: 'one cluster', body: { ...rollout, candidate: 'a' }, status: 400, field: 'candidate' },
    ],
  },
  'DELETE /api/rollouts/{namespace}/{name}': {
    success: [
      {
        ...perUser,
        why: 'deletes',
        status: 200,
        first: [['PUT /api/rollouts/{namespace}/{name}', { ...perUser, body: rollout }]],
      },
    ],
    unknown: [{ why: 'an unknown name', path: { namespace: 'default', name: 'other' }, status: 404, field: 'name' }],
    conflict: [
      {
        ...perUser,
        why: 'not what was seen',
        query: 'version=x',
        status: 409,
        field: 'version',
        first: [['PUT /api/rollouts/{namespace}/{name}', { ...perUser, body: rollout }]],
      },
    ],
  },
  'POST /api/rollouts/{namespace}/{name}/{action}': {
    success: [
      {
        why: 'rolls back',
        path: { ...perUser.path, action: 'rollback' },
        status: 200,
        shows: { progress: { phase: 'RolledBack', weight: 0 } },
        first: [['PUT /api/rollouts/{namespace}/{name}', { ...perUser, body: rollout }]],
      },
    ],
    unknown: [
      {
        why: 'an unknown name',
        path: { namespace: 'default', name: 'other', action: 'pause' },
        status: 404,
        field: 'name',
      },
    ],
    conflict: [
      {
        why: 'is not paused',
        path: { ...perUser.path, action: 'resume' },
        status: 409,
        first: [['PUT /api/rollouts/{namespace}/{name}', { ...perUser, body: rollout }]],
      },
    ],
  },
  'GET /api/rules': {
    success: [
      {
        why: 'lists',
        status: 200,
        shows: { engine: 'on', file: { state: 'loaded' }, rules: [{ name: 'r', position: 1 }] },
      },
    ],
    unknown: null,
    conflict: null,
  },
  'PUT /api/rules/{name}': {
    success: [
      { ...named, why: 'replaces', body: { ...rule, priority: 3 }, status: 200, shows: { name: 'r', priority: 3 } },
    ],
    unknown: [{ why: 'an unknown name', path: { name: 'nobody' }, body: rule, status: 404, field: 'name' }],
    conflict: [
      { ...named, why: 'not what was seen', body: { ...rule, version: 'x' }, status: 409, field: 'version' },
      { ...named, why: 'no place in a file', body: { ...rule, suspend: true }, status: 422, field: 'suspend' },
    ],
    malformed: [
      { ...named, why: 'does not compile', body: { ...rule, condition: '(' }, status: 400, field: 'condition' },
      { ...named, why: 'no way', body: { condition: 'true' }, status: 400, field: 'actions' },
      {
        ...named,
        why: 'two ways',
        body: { ...rule, routeTo: { cluster: 'c1' } },
        status: 400,
        field: 'routeTo',
      },
    ],
  },
  'POST /api/rules': {
    success: [{ why: 'creates', body: { name: 'new', ...added }, status: 200, shows: { name: 'new', priority: 9 } }],
    unknown: null,
    conflict: [{ why: 'a name that is taken', body: { name: 'r', ...added }, status: 409, field: 'name' }],
    malformed: [
      { why: 'does not compile', body: { name: 'x', ...added, condition: '(' }, status: 400, field: 'condition' },
      { why: 'a control character', body: { name: 'x\u0000', ...added }, status: 400, field: 'name' },
    ],
  },
  'DELETE /api/rules/{name}': {
    success: [
      {
        why: 'deletes',
        path: { name: 'old' },
        status: 200,
        first: [['POST /api/rules', { body: { name: 'old', ...added } }]],
      },
    ],
    unknown: [{ why: 'an unknown name', path: { name: 'nobody' }, status: 404, field: 'name' }],
    conflict: [{ ...named, why: 'not what was seen', query: 'version=x', status: 409, field: 'version' }],
  },
  'POST /api/rules/impact': {
    success: [
      { why: 'replays', body: { changes: [{ name: 'x', rule: added }] }, status: 200 },
      { why: 'without a rule', body: { changes: [{ name: 'r', rule: null }] }, status: 200 },
    ],
    unknown: [{ why: 'an unknown name', body: { changes: [{ name: 'nobody', rule: null }] }, status: 400 }],
    conflict: null,
    malformed: [
      { why: 'no time', body: { from: 'x', changes: [{ name: 'r', rule: null }] }, status: 400, field: 'from' },
    ],
  },
  'GET /api/ruleHits': {
    success: [{ why: 'counts', status: 200 }],
    unknown: null,
    conflict: null,
  },
  'GET /api/audit': {
    success: [
      { why: 'lists', query: 'limit=1', status: 200 },
      { why: 'filters', query: 'kind=RoutingRule&user=nobody', status: 200, shows: { changes: [], next: null } },
    ],
    unknown: null,
    conflict: null,
    malformed: ['limit=0', 'limit=101', 'limit=x', 'from=x', 'after=x', 'source=x'].map((query) => ({
      why: query,
      query,
      status: 400,
    })),
  },
  'GET /api/queries/running': {
    success: [{ why: 'lists none', query: 'user=nobody', status: 200, shows: { queries: [] } }],
    unknown: null,
    conflict: null,
  },
  // Ended for good in test/integration/serve/audit.test.ts: the cluster of this one does not exist.
  'DELETE /api/queries/running/{queryId}': {
    success: [{ why: 'asks its cluster', path: { queryId: 'q-1' }, status: 502 }],
    unknown: [{ why: 'an unknown id', path: { queryId: 'nobody' }, status: 404 }],
    conflict: null,
  },
};
