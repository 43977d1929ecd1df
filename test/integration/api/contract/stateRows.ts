import type { OperationRows } from './rows.ts';

const rule = { condition: 'true', actions: ['result.put("routingGroup", "adhoc")'] };
const named = { path: { name: 'r' } };

/** The state at a glance, clusters with their resources, and rules with theirs. */
export const stateRows: Record<string, OperationRows> = {
  'GET /api/overview': {
    success: [{ why: 'answers', status: 200, shows: { notReadyBecause: null, source: { available: true } } }],
    unknown: null,
    conflict: null,
  },
  'GET /api/overview/queries': {
    success: [
      { why: 'counts an hour', status: 200, shows: { intervalMs: 60_000 } },
      { why: 'counts a day', query: 'minutes=1440', status: 200, shows: { intervalMs: 360_000 } },
    ],
    unknown: null,
    conflict: null,
    malformed: ['minutes=0', 'minutes=-1', 'minutes=x', 'minutes='].map((query) => ({
      why: query,
      query,
      status: 400,
      field: 'minutes',
    })),
  },
  'GET /api/clusters': {
    success: [{ why: 'lists', status: 200 }],
    unknown: null,
    conflict: null,
  },
  'PUT /api/clusters/{name}/active': {
    success: [
      { why: 'switches off', path: { name: 'c1' }, body: { active: false }, status: 200, shows: { active: false } },
      { why: 'switches on', path: { name: 'c1' }, body: { active: true }, status: 200, shows: { active: true } },
    ],
    unknown: [{ why: 'an unknown name', path: { name: 'nobody' }, body: { active: true }, status: 404, field: 'name' }],
    conflict: null,
    malformed: [{ why: 'a slash', path: { name: 'a/b' }, body: { active: true }, status: 404, field: 'name' }],
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
      { ...named, why: 'no place in a file', body: { ...rule, suspended: true }, status: 422, field: 'suspended' },
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
};
