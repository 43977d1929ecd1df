import { type CallOptions, get, post, type RestCall } from './restCall.ts';

/** Calls of release 18 about resource groups, selectors and global properties, each on the same rows, and about who may call. */

const user: CallOptions = { as: 'user:x' };
const admin: CallOptions = { as: 'admin:x' };
const json = 'application/json';
const group = { name: 'new', softMemoryLimit: '20%', maxQueued: 5, hardConcurrencyLimit: 3 };
const whole = {
  ...group,
  parent: 1,
  jmxExport: true,
  schedulingPolicy: 'fair',
  schedulingWeight: 2,
  softConcurrencyLimit: 2,
  softCpuLimit: '1h',
  hardCpuLimit: '2h',
  environment: 'test',
};
/** The selectors of the rows. */
const selector = { resourceGroupId: 2, priority: 10, userRegex: 'ann', sourceRegex: 'cli', queryType: 'SELECT' };

const groups: readonly RestCall[] = [
  get('/trino/resourcegroup/read', 'all', user),
  get('/trino/resourcegroup/read/', 'all, with a slash', user),
  get('/trino/resourcegroup/read/2', 'one', user),
  get('/trino/resourcegroup/read/99', 'an unknown id', user),
  get('/trino/resourcegroup/read/two', 'an id that is not a number', user),
  post('/trino/resourcegroup/create', 'a group', group, user),
  post('/trino/resourcegroup/create', 'with every field', whole, user),
  post('/trino/resourcegroup/create', 'with an id', { ...group, resourceGroupId: 77 }, user),
  post('/trino/resourcegroup/create', 'a name that is taken', { ...group, name: 'etl', environment: 'test' }, user),
  post(
    '/trino/resourcegroup/create',
    'a name of a group elsewhere',
    { ...group, name: 'etl', environment: 'other' },
    user,
  ),
  post('/trino/resourcegroup/create', 'without a name', { ...group, name: undefined }, user),
  post('/trino/resourcegroup/create', 'without a memory limit', { ...group, softMemoryLimit: undefined }, user),
  post('/trino/resourcegroup/create', 'a memory limit as a size', { ...group, softMemoryLimit: '5GB' }, user),
  post('/trino/resourcegroup/create', 'a memory limit of any text', { ...group, softMemoryLimit: 'much' }, user),
  post('/trino/resourcegroup/create', 'without counts', { name: 'new', softMemoryLimit: '1%' }, user),
  post('/trino/resourcegroup/create', 'an unknown parent', { ...group, parent: 99 }, user),
  post('/trino/resourcegroup/create', 'an unknown policy', { ...group, schedulingPolicy: 'none' }, user),
  post('/trino/resourcegroup/create', 'an unknown field', { ...group, color: 'red' }, user),
  post('/trino/resourcegroup/create', 'numbers as text', { ...group, maxQueued: '5' }, user),
  post('/trino/resourcegroup/create', 'broken JSON', '{"name":', { ...user, contentType: json }),
  post('/trino/resourcegroup/create', 'without a body', undefined, user),
  post('/trino/resourcegroup/create', 'as plain text', JSON.stringify(group), user),
  post('/trino/resourcegroup/update', 'every field', { ...whole, resourceGroupId: 3 }, user),
  post('/trino/resourcegroup/update', 'fewer fields', { ...group, resourceGroupId: 3 }, user),
  post('/trino/resourcegroup/update', 'without an id', group, user),
  post('/trino/resourcegroup/update', 'an unknown id', { ...group, resourceGroupId: 99 }, user),
  post('/trino/resourcegroup/update', 'a name that is taken', { ...group, resourceGroupId: 3, name: 'spare' }, user),
  post('/trino/resourcegroup/delete/4', 'a group', undefined, user),
  post('/trino/resourcegroup/delete/3', 'a group with selectors', undefined, user),
  post('/trino/resourcegroup/delete/1', 'a group with groups', undefined, user),
  post('/trino/resourcegroup/delete/99', 'an unknown id', undefined, user),
  post('/trino/resourcegroup/delete', 'without an id', undefined, user),
  post('/trino/resourcegroup/delete/two', 'an id that is not a number', undefined, user),
  get('/trino/resourcegroup/read?useSchema=OWN', 'the schema by name', user),
  get('/trino/resourcegroup/read?useSchema=none', 'a missing schema', user),
  get('/trino/resourcegroup/read?useSchema=', 'an empty schema', user),
  get('/trino/resourcegroup/read?useSchema=a%2Fb', 'a schema with a slash', user),
];

const selectors: readonly RestCall[] = [
  get('/trino/selector/read', 'all', user),
  get('/trino/selector/read/', 'all, with a slash', user),
  get('/trino/selector/read/2', 'of a group', user),
  get('/trino/selector/read/99', 'of an unknown group', user),
  get('/trino/selector/read/two', 'an id that is not a number', user),
  post('/trino/selector/create', 'a selector', { ...selector, priority: 7, clientTags: '["a"]' }, user),
  post('/trino/selector/create', 'one that is there', selector, user),
  post('/trino/selector/create', 'group alone', { resourceGroupId: 2 }, user),
  post('/trino/selector/create', 'without a group', { ...selector, resourceGroupId: undefined }, user),
  post('/trino/selector/create', 'an unknown group', { ...selector, resourceGroupId: 99 }, user),
  post('/trino/selector/create', 'an expression that does not compile', { ...selector, userRegex: '(' }, user),
  post('/trino/selector/create', 'an unknown field', { ...selector, color: 'red' }, user),
  post('/trino/selector/create', 'broken JSON', '{"priority":', { ...user, contentType: json }),
  post('/trino/selector/create', 'without a body', undefined, user),
  post('/trino/selector/update', 'a selector', { current: selector, update: { ...selector, priority: 1 } }, user),
  post(
    '/trino/selector/update',
    'several that are equal',
    { current: { resourceGroupId: 3, priority: 5 }, update: { resourceGroupId: 3, priority: 6 } },
    user,
  ),
  post(
    '/trino/selector/update',
    'none that is equal',
    { current: { ...selector, priority: 9 }, update: selector },
    user,
  ),
  post('/trino/selector/update', 'without current', { update: selector }, user),
  post('/trino/selector/update', 'without update', { current: selector }, user),
  post('/trino/selector/update', 'broken JSON', '{"current":', { ...user, contentType: json }),
  post('/trino/selector/delete', 'a selector', selector, user),
  post('/trino/selector/delete/', 'a selector, with a slash', selector, user),
  post('/trino/selector/delete', 'several that are equal', { resourceGroupId: 3, priority: 5 }, user),
  post('/trino/selector/delete', 'none that is equal', { ...selector, priority: 9 }, user),
  post('/trino/selector/delete', 'broken JSON', '{"priority":', { ...user, contentType: json }),
  post('/trino/selector/delete', 'without a body', undefined, user),
];

const properties: readonly RestCall[] = [
  get('/trino/globalproperty/read', 'all', user),
  get('/trino/globalproperty/read/', 'all, with a slash', user),
  get('/trino/globalproperty/read/cpu_quota_period', 'one', user),
  get('/trino/globalproperty/read/none', 'an unknown name', user),
  post('/trino/globalproperty/create', 'one that is there', { name: 'cpu_quota_period', value: '2h' }, user),
  post('/trino/globalproperty/create', 'another name', { name: 'other', value: '2h' }, user),
  post('/trino/globalproperty/create', 'without a name', { value: '2h' }, user),
  post('/trino/globalproperty/create', 'broken JSON', '{"name":', { ...user, contentType: json }),
  post('/trino/globalproperty/update', 'the value', { name: 'cpu_quota_period', value: '2h' }, user),
  post(
    '/trino/globalproperty/update',
    'a value that is not a duration',
    { name: 'cpu_quota_period', value: 'x' },
    user,
  ),
  post('/trino/globalproperty/update', 'another name', { name: 'other', value: '2h' }, user),
  post('/trino/globalproperty/delete/cpu_quota_period', 'one', undefined, user),
  post('/trino/globalproperty/delete/none', 'an unknown name', undefined, user),
  post('/trino/globalproperty/delete', 'without a name', undefined, user),
];

const exact = {
  resourceGroupId: '2',
  updateTime: '2026-11-21 01:57:45',
  source: 'cli',
  environment: 'test',
  queryType: 'SELECT',
};
const webApplication: readonly RestCall[] = [
  post('/webapp/findResourceGroup', 'all', {}, admin),
  post('/webapp/findResourceGroup', 'an empty schema', { useSchema: '' }, admin),
  post('/webapp/getResourceGroup', 'one', { resourceGroupId: 2 }, admin),
  post('/webapp/getResourceGroup', 'an unknown id', { resourceGroupId: 99 }, admin),
  post('/webapp/getResourceGroup', 'without an id', {}, admin),
  post('/webapp/saveResourceGroup', 'a group', { data: whole }, admin),
  post(
    '/webapp/saveResourceGroup',
    'a name that is taken',
    { data: { ...group, name: 'etl', environment: 'test' } },
    admin,
  ),
  post('/webapp/saveResourceGroup', 'without data', {}, admin),
  post('/webapp/updateResourceGroup', 'a group', { data: { ...whole, resourceGroupId: 3 } }, admin),
  post('/webapp/updateResourceGroup', 'an unknown id', { data: { ...group, resourceGroupId: 99 } }, admin),
  post('/webapp/deleteResourceGroup', 'a group', { data: { resourceGroupId: 4 } }, admin),
  post('/webapp/deleteResourceGroup', 'a group with selectors', { data: { resourceGroupId: 3 } }, admin),
  post('/webapp/findSelector', 'all', {}, admin),
  post('/webapp/getSelector', 'of a group', { resourceGroupId: 2 }, admin),
  post('/webapp/getSelector', 'without an id', {}, admin),
  post('/webapp/saveSelector', 'a selector', { data: { ...selector, priority: 7 } }, admin),
  post('/webapp/updateSelector', 'a selector', { data: { ...selector, priority: 7 }, oldData: selector }, admin),
  post('/webapp/deleteSelector', 'a selector', { data: selector }, admin),
  post('/webapp/findGlobalProperty', 'all', {}, admin),
  post('/webapp/getGlobalProperty', 'one', { name: 'cpu_quota_period' }, admin),
  post('/webapp/getGlobalProperty', 'an unknown name', { name: 'none' }, admin),
  post('/webapp/getGlobalProperty', 'without a name', {}, admin),
  post('/webapp/saveGlobalProperty', 'one that is there', { data: { name: 'cpu_quota_period', value: '2h' } }, admin),
  post('/webapp/updateGlobalProperty', 'the value', { data: { name: 'cpu_quota_period', value: '2h' } }, admin),
  post('/webapp/deleteGlobalProperty', 'one', { data: { name: 'cpu_quota_period' } }, admin),
  post('/webapp/updateGlobalProperty', 'by USER', { data: { name: 'cpu_quota_period', value: '2h' } }, user),
  post('/webapp/findExactMatchSourceSelector', 'all', {}, admin),
  post('/webapp/saveExactMatchSourceSelector', 'a selector', exact, admin),
];

const entities: readonly RestCall[] = [
  get('/entity', 'types', admin),
  get('/entity/RESOURCE_GROUP', 'all', admin),
  get('/entity/SELECTOR', 'all', admin),
  post('/entity?entityType=RESOURCE_GROUP', 'a new group', group, admin),
  post('/entity?entityType=RESOURCE_GROUP', 'a group', { ...group, resourceGroupId: 3 }, admin),
  post('/entity?entityType=RESOURCE_GROUP', 'an unknown id', { ...group, resourceGroupId: 99 }, admin),
  post('/entity?entityType=SELECTOR', 'the first of a group', { ...selector, priority: 7 }, admin),
  post('/entity?entityType=SELECTOR', 'of a group without selectors', { ...selector, resourceGroupId: 4 }, admin),
];

/** One call of each role, as callers that may not. */
const access: readonly RestCall[] = [
  ['GET', '/gateway/backend/all', 'user'],
  ['GET', '/entity', 'user'],
  ['GET', '/trino/resourcegroup/read', 'api'],
  ['GET', '/trino-gateway/api/activeBackends', 'api'],
  ['GET', '/webapp/getRoutingRules', 'user'],
  ['GET', '/webapp/getUIConfiguration', 'api'],
  ['POST', '/userinfo', 'api'],
].flatMap(([method, path, without]) =>
  (
    [
      ['nobody', {}],
      ['a wrong password', { as: 'admin:y' }],
      ['an unknown user', { as: 'none:x' }],
      ['without the role', { as: `${without}:x` }],
    ] as const
  ).map(([what, more]) => ({ method: method as 'GET' | 'POST', path: path as string, what, ...more })),
);

const login: readonly RestCall[] = [
  post('/loginType', 'form'),
  post('/login', 'right', { username: 'user', password: 'x' }),
  post('/login', 'a wrong password', { username: 'user', password: 'y' }),
  post('/login', 'an unknown user', { username: 'none', password: 'x' }),
  post('/login', 'without a password', { username: 'user' }),
  post('/login', 'an empty password', { username: 'user', password: '' }),
  post('/userinfo', 'a user', undefined, user),
  post('/userinfo', 'an administrator', undefined, admin),
  post('/logout', 'form'),
];

/** Calls that change rows, or read them; all start from the same. */
export const groupCalls: readonly RestCall[] = [...groups, ...selectors, ...properties, ...webApplication, ...entities];

/** Calls about who may call. */
export const accessCalls: readonly RestCall[] = [...access, ...login];
