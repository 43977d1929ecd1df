import type { Known, OperationRows, Row } from './rows.ts';

const page = (status: number): OperationRows => ({
  success: [{ why: 'needs nobody to log in', as: null, status }],
  unknown: null,
  conflict: null,
});
const rule = {
  name: 'r',
  description: 'd',
  priority: 7,
  condition: 'true',
  actions: ['result.put("routingGroup", "adhoc")'],
};

/** Logging in, history and views, routing rules, probes and pages. */
export function otherRows(known: Known): Record<string, OperationRows> {
  const credentials = { username: 'root', password: 'secret' };
  const searched = (body: object, ids: readonly string[]): Row => ({
    why: `finds ${JSON.stringify(body)}`,
    body,
    status: 200,
    shows: { rows: ids.map((queryId) => ({ queryId })) },
  });
  const found = (body: unknown, ids: readonly string[]): Row => ({
    why: `finds ${ids.length} by ${JSON.stringify(body)}`,
    body,
    status: 200,
    shows: { data: { rows: ids.map((queryId) => ({ queryId })) } },
  });
  const nothing = { why: 'no body', body: '', status: 400 };
  return {
    'POST /loginType': {
      success: [{ why: 'answers', as: null, status: 200, shows: { code: 200, msg: 'Ok', data: 'form' } }],
      unknown: null,
      conflict: null,
    },
    'GET /api/logins': {
      success: [
        {
          why: 'answers',
          as: null,
          status: 200,
          shows: { methods: [{ kind: 'form' }, { kind: 'provider', name: 'oauth' }] },
        },
      ],
      unknown: null,
      conflict: null,
    },
    'POST /login': {
      success: [{ why: 'logs in', as: null, body: credentials, status: 200, shows: { code: 200 } }],
      unknown: [
        { why: 'a wrong password', as: null, body: { ...credentials, password: 'x' }, status: 401 },
        { why: 'an unknown name', as: null, body: { ...credentials, username: 'nobody' }, status: 401 },
        { why: 'no password', as: null, body: { ...credentials, password: '' }, status: 401 },
      ],
      conflict: null,
      malformed: [{ ...nothing, as: null }],
    },
    'POST /logout': {
      success: [
        { why: 'ends a session', as: null, headers: { Authorization: `Bearer ${known.session}` }, status: 200 },
        { why: 'without a session nothing happens', as: null, status: 200, shows: { code: 200, msg: 'Successful.' } },
      ],
      unknown: null,
      conflict: null,
    },
    'POST /userinfo': {
      success: [{ why: 'returns the caller', status: 200, shows: { data: { userId: 'root', userName: 'root' } } }],
      unknown: null,
      conflict: null,
    },
    'POST /sso': {
      success: [{ why: 'begins a login at the provider', as: null, status: 200, shows: { code: 200, msg: 'Ok' } }],
      unknown: null,
      conflict: null,
    },
    'POST /sso/{provider}': {
      success: [{ why: 'begins one at a provider', as: null, path: { provider: 'oauth' }, status: 200 }],
      unknown: [{ why: 'an unknown provider', as: null, path: { provider: 'nobody' }, status: 422 }],
      conflict: null,
    },
    'GET /oidc/callback/{provider}': {
      success: [
        {
          why: 'finishes it',
          as: null,
          path: { provider: 'oauth' },
          query: known.namedCallback.query,
          headers: { Cookie: known.namedCallback.cookie },
          status: 302,
        },
      ],
      unknown: [
        { why: 'an unknown provider', as: null, path: { provider: 'nobody' }, query: 'code=a&state=b', status: 422 },
        {
          why: 'a login that was not begun',
          as: null,
          path: { provider: 'oauth' },
          query: 'code=a&state=b',
          status: 401,
        },
      ],
      conflict: null,
    },
    'GET /oidc/callback': {
      success: [
        {
          why: 'finishes it',
          as: null,
          query: known.callback.query,
          headers: { Cookie: known.callback.cookie },
          status: 302,
        },
      ],
      unknown: [
        {
          why: 'an answer that was used',
          as: null,
          query: known.callback.query,
          headers: { Cookie: known.callback.cookie },
          status: 401,
        },
        { why: 'a login that was not begun', as: null, query: 'code=a&state=b', status: 401 },
        { why: 'nothing', as: null, status: 401 },
      ],
      conflict: null,
    },

    'POST /webapp/findQueryHistory': {
      success: [
        found({ user: 'ann' }, ['q-2', 'q-1']),
        found({ user: 'ann', page: 2, size: 1 }, ['q-1']),
        found({ source: 'other' }, ['q-3']),
        found({ routingGroup: 'none' }, []),
        { why: 'needs no body', status: 200 },
      ],
      unknown: null,
      conflict: null,
      malformed: [{ why: 'too large a page', body: { size: 2001 }, status: 400, field: 'size' }],
    },
    'POST /webapp/getDistribution': {
      success: [
        { why: 'counts', body: { latestHour: 1 }, status: 200, shows: { data: { totalQueryCount: 3 } } },
        { why: 'needs no body', status: 200 },
      ],
      unknown: null,
      conflict: null,
      malformed: [{ why: 'a negative time', body: { latestHour: -1 }, status: 400, field: 'latestHour' }],
    },
    'GET /engine-gateway/api/queryHistory': {
      success: [{ why: 'lists', status: 200, shows: [{ queryId: 'q-3' }, { queryId: 'q-2' }, { queryId: 'q-1' }] }],
      unknown: null,
      conflict: null,
    },
    'GET /engine-gateway/api/queryHistoryDistribution': {
      success: [{ why: 'counts', status: 200, shows: { c1: 2, 'http://gone:1': 1 } }],
      unknown: null,
      conflict: null,
    },
    'GET /api/queries/{queryId}': {
      success: [{ why: 'shows it', path: { queryId: 'q-1' }, status: 200, shows: { queryId: 'q-1', user: 'ann' } }],
      unknown: [
        { why: 'an unknown id', path: { queryId: 'nothing' }, status: 404 },
        { why: 'an id with NUL', path: { queryId: 'a\0b' }, status: 404 },
      ],
      conflict: null,
    },
    'POST /api/history/search': {
      success: [
        searched({}, ['q-3', 'q-2', 'q-1']),
        searched({ user: 'ann', size: 1 }, ['q-2']),
        searched({ user: 'an' }, []),
        searched({ user: 'an', match: 'prefix' }, ['q-2', 'q-1']),
        searched({ source: 'oth', queryId: 'q-', cluster: '', match: 'prefix' }, ['q-3']),
        searched({ user: '%', match: 'prefix' }, []),
        searched({ cluster: 'nobody', match: 'prefix' }, []),
      ],
      unknown: null,
      conflict: null,
      malformed: [
        { why: 'too large a page', body: { size: 2001 }, status: 400, field: 'size' },
        { why: 'an unknown match', body: { match: 'suffix' }, status: 400, field: 'match' },
      ],
    },
    'POST /api/explain': {
      success: [
        {
          why: 'explains',
          body: { body: 'select 1', user: 'ann' },
          status: 200,
          shows: { routingGroup: 'adhoc', decidedBy: 'rule' },
        },
      ],
      unknown: null,
      conflict: null,
      malformed: [
        { why: 'a method in small letters', body: { method: 'post' }, status: 400, field: 'method' },
        { why: 'a path without slash', body: { path: 'v1' }, status: 400, field: 'path' },
      ],
    },

    'GET /webapp/getRoutingRules': {
      success: [{ why: 'lists', status: 200, shows: { data: [{ name: 'r' }] } }],
      unknown: null,
      conflict: null,
    },
    'POST /webapp/updateRoutingRules': {
      success: [{ why: 'replaces', body: rule, status: 200, shows: { data: [{ name: 'r', priority: 7 }] } }],
      unknown: [{ why: 'an unknown name', body: { ...rule, name: 'nobody' }, status: 404, field: 'name' }],
      conflict: null,
      malformed: [
        {
          why: 'a condition that does not compile',
          body: { ...rule, condition: '(' },
          status: 400,
          field: 'condition',
        },
        { why: 'an action that does not compile', body: { ...rule, actions: ['('] }, status: 400, field: 'actions[0]' },
        { why: 'no actions', body: { ...rule, actions: [] }, status: 400, field: 'actions' },
      ],
    },
    'GET /webapp/getUIConfiguration': {
      success: [{ why: 'shows it', status: 200, shows: { code: 200, data: {} } }],
      unknown: null,
      conflict: null,
    },

    'GET /': page(303),
    'GET /livez': page(200),
    'GET /engine-gateway/livez': page(200),
    'GET /readyz': {
      ...page(200),
      success: [
        { why: 'is ready', as: null, status: 200, shows: 'ok' },
        { why: 'reports every component', as: null, query: 'verbose', status: 200 },
      ],
    },
    'GET /engine-gateway/readyz': page(200),
    'GET /openapi.json': page(200),
    'GET /metrics': {
      ...page(200),
      success: [
        { why: 'shows all', as: null, status: 200 },
        { why: 'shows one', as: null, query: 'name[]=engine_gateway_build_info', status: 200 },
      ],
    },
  };
}
