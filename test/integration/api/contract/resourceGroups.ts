import type { Known, OperationRows, Row } from './rows.ts';

/** A resource group as callers send it. */
export const group = (name: string) => ({
  name,
  softMemoryLimit: '10%',
  maxQueued: 5,
  softConcurrencyLimit: 4,
  hardConcurrencyLimit: 5,
  schedulingPolicy: 'fair',
  jmxExport: true,
  environment: 'test',
});
const property = { name: 'cpu_quota_period', value: '1h' };
const create = 'POST /engine/resourcegroup/create';
const noGroup = 4_000_000_000;
const never = 'unknown ids are no error here';

/** Resource groups, selectors and global properties, under the product's name, under /webapp and as entities. */
export function resourceGroupRows(known: Known): Record<string, OperationRows> {
  const other = `useSchema=${known.otherDatabase}`;
  const selector = {
    resourceGroupId: known.group,
    priority: 1,
    userRegex: 'ann|bob',
    sourceRegex: 'cli.*',
    queryType: 'SELECT',
  };
  const noProperty = [['POST /engine/globalproperty/delete/{name}', { path: { name: property.name } }]] as const;
  const enveloped = (data: unknown) => ({ code: 200, msg: 'Successful.', data });
  const ids = { path: { resourceGroupId: known.group }, status: 200 } as const;
  const badIds: readonly Row[] = ['x', '-1', '1.5', '99999999999999999999', '1 or 1=1'].map((id) => ({
    why: `the id ${id}`,
    path: { resourceGroupId: id },
    status: 400,
    field: 'resourceGroupId',
  }));
  const longName = { why: 'a name of 129 characters', path: { name: 'x'.repeat(129) }, status: 400, field: 'name' };

  const badGroups = (wrap: (fields: object) => object, prefix: string): readonly Row[] =>
    (
      [
        ['a name with a dot', { name: 'a.b' }, 'name'],
        ['a limit without unit', { softMemoryLimit: '10' }, 'softMemoryLimit'],
        ['a policy that does not exist', { schedulingPolicy: 'lottery' }, 'schedulingPolicy'],
        ['a number beyond 32 bits', { maxQueued: 2 ** 31 }, 'maxQueued'],
        ['no duration', { hardCpuLimit: 'an hour' }, 'hardCpuLimit'],
      ] as const
    ).map(([why, fields, field]) => ({
      why,
      body: wrap({ ...group('bad'), ...fields }),
      status: 400,
      field: prefix + field,
    }));
  const impossible = (wrap: (fields: object) => object, prefix = ''): readonly Row[] =>
    (
      [
        ['a parent that is not there', { parent: noGroup }, 'parent'],
        ['a soft limit above the hard one', { softConcurrencyLimit: 6 }, 'softConcurrencyLimit'],
        ['a soft CPU limit alone', { softCpuLimit: '1h' }, 'hardCpuLimit'],
      ] as const
    ).map(([why, fields, field]) => ({
      why,
      body: wrap({ ...group('impossible'), ...fields }),
      status: 422,
      field: prefix + field,
    }));
  const badSelectors = (wrap: (fields: object) => object, prefix: string): readonly Row[] =>
    (
      [
        ['a type that does not exist', { queryType: 'DROP' }, 'queryType'],
        ['tags that are no list', { clientTags: '{}' }, 'clientTags'],
        ['an estimate that is no object', { selectorResourceEstimate: '[]' }, 'selectorResourceEstimate'],
      ] as const
    ).map(([why, fields, field]) => ({
      why,
      body: wrap({ ...selector, ...fields }),
      status: 400,
      field: prefix + field,
    }));
  const badProperties = (wrap: (fields: object) => object, prefix: string): readonly Row[] => [
    { why: 'another name', body: wrap({ ...property, name: 'x' }), status: 400, field: `${prefix}name` },
    { why: 'no duration', body: wrap({ ...property, value: 'x' }), status: 400, field: `${prefix}value` },
  ];
  const plain = (fields: object) => fields;
  const data = (fields: object) => ({ data: fields });
  const groupId = { resourceGroupId: known.group };
  const noGroupId = { resourceGroupId: noGroup };
  const unknownGroup = (body: object): Row => ({
    why: 'a group that is not there',
    body,
    status: 404,
    field: 'resourceGroupId',
  });
  const lost = (body: object, field: string): Row => ({ why: 'a group that is not there', body, status: 422, field });
  const emptyList = { shows: [] };

  const lists = (params: Row): OperationRows => ({ success: [params], unknown: null, conflict: null });
  return {
    'GET /api/resourcegroups/declared': lists({ why: 'nothing is declared', status: 200, ...emptyList }),
    'POST /api/resourcegroups/explain': {
      success: [
        {
          why: 'explains',
          body: { user: 'ann', environment: 'test', queryType: 'SELECT', resourceEstimates: { cpuTime: '1h' } },
          status: 200,
          shows: { environment: 'test', problems: [] },
        },
      ],
      unknown: [
        { why: 'an unknown environment', body: { user: 'ann', environment: 'x' }, status: 404, field: 'environment' },
        {
          why: 'a database without groups',
          body: { user: 'ann', useSchema: known.otherDatabase, environment: 'x' },
          status: 404,
        },
      ],
      conflict: null,
      malformed: [
        { why: 'no user', body: {}, status: 400, field: 'user' },
        { why: 'a type that does not exist', body: { user: 'a', queryType: 'DROP' }, status: 400, field: 'queryType' },
        {
          why: 'no size',
          body: { user: 'a', resourceEstimates: { peakMemory: '5' } },
          status: 400,
          field: 'resourceEstimates.peakMemory',
        },
      ],
    },
    'GET /engine/resourcegroup/read': {
      ...lists({ why: 'lists', status: 200 }),
      success: [
        { why: 'lists', status: 200 },
        { why: 'lists those of another database', query: other, status: 200, ...emptyList },
      ],
    },
    'GET /engine/resourcegroup/read/{resourceGroupId}': {
      success: [{ why: 'shows it', ...ids, shows: [{ ...groupId, name: 'base' }] }],
      unknown: [{ why: 'an unknown id gives an empty list', path: noGroupId, status: 200, ...emptyList }],
      conflict: null,
      malformed: badIds,
    },
    [create]: {
      success: [
        { why: 'creates', body: group('created-1'), status: 200, shows: group('created-1') },
        { why: 'creates in another database', query: other, body: group('base'), status: 200, shows: group('base') },
        {
          why: 'takes an id of 0 or null as not sent',
          body: { ...group('created-2'), resourceGroupId: 0 },
          status: 200,
        },
      ],
      unknown: null,
      conflict: [
        { why: 'a name that is taken', body: group('base'), status: 409, field: 'name' },
        ...impossible(plain),
      ],
      malformed: [
        ...badGroups(plain, ''),
        { why: 'an id', body: { ...group('x'), resourceGroupId: 7 }, status: 400, field: 'resourceGroupId' },
        {
          why: 'no memory limit',
          body: { ...group('x'), softMemoryLimit: null },
          status: 400,
          field: 'softMemoryLimit',
        },
      ],
    },
    'POST /engine/resourcegroup/update': {
      success: [
        {
          why: 'overwrites',
          body: { ...group('base'), ...groupId, maxQueued: 9 },
          status: 200,
          shows: { maxQueued: 9 },
        },
      ],
      unknown: [unknownGroup({ ...group('x'), ...noGroupId })],
      conflict: [
        { why: 'a name that is taken', body: { ...group('used'), ...groupId }, status: 409, field: 'name' },
        {
          why: 'itself as parent',
          body: { ...group('base'), ...groupId, parent: known.group },
          status: 422,
          field: 'parent',
        },
        ...impossible((fields) => ({ ...fields, ...groupId })),
      ],
      malformed: badGroups((fields) => ({ ...fields, ...groupId }), ''),
    },
    'POST /engine/resourcegroup/delete/{resourceGroupId}': {
      success: [{ why: never, path: noGroupId, status: 200, shows: '' }],
      unknown: null,
      conflict: [{ why: 'a group that is in use', path: { resourceGroupId: known.usedGroup }, status: 409 }],
      malformed: badIds,
    },
    'GET /engine/selector/read': lists({ why: 'lists', status: 200, shows: [{ resourceGroupId: known.usedGroup }] }),
    'GET /engine/selector/read/{resourceGroupId}': {
      success: [{ why: 'lists those of a group', path: { resourceGroupId: known.usedGroup }, status: 200 }],
      unknown: [{ why: 'an unknown id gives an empty list', path: noGroupId, status: 200, ...emptyList }],
      conflict: null,
      malformed: badIds,
    },
    'POST /engine/selector/create': {
      success: [
        { why: 'creates', body: selector, status: 200, shows: selector },
        { why: 'points to the newest group', body: { priority: 2 }, status: 200, shows: { priority: 2 } },
      ],
      unknown: [lost({ ...selector, ...noGroupId }, 'resourceGroupId')],
      conflict: [
        {
          why: "a column that only the engine's migrations add",
          body: { ...selector, userGroupRegex: 'a' },
          status: 422,
          field: 'userGroupRegex',
        },
      ],
      malformed: badSelectors(plain, ''),
    },
    'POST /engine/selector/update': {
      success: [
        {
          why: 'changes',
          first: [['POST /engine/selector/create', { body: { ...selector, priority: 11 } }]],
          body: { current: { ...selector, priority: 11 }, update: { ...selector, priority: 12 } },
          status: 200,
          shows: { priority: 12 },
        },
        {
          why: 'creates what is not there',
          body: { current: { ...selector, priority: 99 }, update: selector },
          status: 200,
        },
      ],
      unknown: [lost({ current: selector, update: { ...selector, ...noGroupId } }, 'update.resourceGroupId')],
      conflict: null,
      malformed: badSelectors((fields) => ({ current: selector, update: fields }), 'update.'),
    },
    'POST /engine/selector/delete': {
      success: [
        { why: 'deletes', body: selector, status: 200, shows: '' },
        { why: 'what is not there is no error', body: { ...selector, priority: 1234 }, status: 200 },
      ],
      unknown: null,
      conflict: null,
    },
    'GET /engine/globalproperty/read': lists({ why: 'lists', status: 200 }),
    'GET /engine/globalproperty/read/{name}': {
      success: [{ why: 'shows it', path: { name: property.name }, status: 200 }],
      unknown: [{ why: 'an unknown name gives an empty list', path: { name: 'other' }, status: 200, ...emptyList }],
      conflict: null,
      malformed: [longName],
    },
    'POST /engine/globalproperty/create': {
      success: [{ why: 'creates', first: noProperty, body: property, status: 200, shows: property }],
      unknown: null,
      conflict: [{ why: 'a name that is taken', body: property, status: 409, field: 'name' }],
      malformed: badProperties(plain, ''),
    },
    'POST /engine/globalproperty/update': {
      success: [{ why: 'overwrites', body: { ...property, value: '2h' }, status: 200, shows: { value: '2h' } }],
      unknown: [{ why: 'a property that is not there', first: noProperty, body: property, status: 404, field: 'name' }],
      conflict: null,
      malformed: badProperties(plain, ''),
    },
    'POST /engine/globalproperty/delete/{name}': {
      success: [{ why: 'unknown names are no error', path: { name: 'other' }, status: 200, shows: '' }],
      unknown: null,
      conflict: null,
      malformed: [longName],
    },

    'POST /webapp/findResourceGroup': {
      success: [
        { why: 'lists', body: {}, status: 200, shows: { code: 200 } },
        { why: 'needs no body', status: 200 },
        { why: 'takes an empty schema as none', body: { useSchema: '' }, status: 200 },
      ],
      unknown: null,
      conflict: null,
    },
    'POST /webapp/getResourceGroup': {
      success: [{ why: 'shows it', body: groupId, status: 200, shows: { data: { name: 'base' } } }],
      unknown: [
        { why: 'an unknown id gives no data', body: noGroupId, status: 200, shows: { code: 200, msg: 'Successful.' } },
      ],
      conflict: null,
      malformed: [{ why: 'no id', body: {}, status: 400, field: 'resourceGroupId' }],
    },
    'POST /webapp/saveResourceGroup': {
      success: [{ why: 'creates', body: data(group('saved')), status: 200, shows: { data: group('saved') } }],
      unknown: null,
      conflict: [
        { why: 'a name that is taken', body: data(group('base')), status: 409, field: 'name' },
        ...impossible(data),
      ],
      malformed: badGroups(data, 'data.'),
    },
    'POST /webapp/updateResourceGroup': {
      success: [
        { why: 'overwrites', body: data({ ...group('base'), ...groupId }), status: 200, shows: { data: groupId } },
      ],
      unknown: [unknownGroup(data({ ...group('x'), ...noGroupId }))],
      conflict: impossible((fields) => data({ ...fields, ...groupId })),
      malformed: badGroups((fields) => data({ ...fields, ...groupId }), 'data.'),
    },
    'POST /webapp/deleteResourceGroup': {
      success: [{ why: never, body: data(noGroupId), status: 200, shows: enveloped(true) }],
      unknown: null,
      conflict: [{ why: 'a group that is in use', body: data({ resourceGroupId: known.usedGroup }), status: 409 }],
    },
    'POST /webapp/findSelector': {
      success: [{ why: 'lists', body: {}, status: 200 }],
      unknown: null,
      conflict: null,
    },
    'POST /webapp/getSelector': {
      success: [{ why: 'shows it', body: { resourceGroupId: known.usedGroup }, status: 200 }],
      unknown: [{ why: 'an unknown id gives no data', body: noGroupId, status: 200 }],
      conflict: null,
      malformed: [{ why: 'no id', body: {}, status: 400, field: 'resourceGroupId' }],
    },
    'POST /webapp/saveSelector': {
      success: [{ why: 'creates', body: data(selector), status: 200, shows: { data: selector } }],
      unknown: [lost(data({ ...selector, ...noGroupId }), 'resourceGroupId')],
      conflict: null,
      malformed: badSelectors(data, 'data.'),
    },
    'POST /webapp/updateSelector': {
      success: [{ why: 'changes', body: { oldData: selector, data: { ...selector, priority: 3 } }, status: 200 }],
      unknown: [lost({ oldData: selector, data: { ...selector, ...noGroupId } }, 'data.resourceGroupId')],
      conflict: null,
      malformed: badSelectors((fields) => ({ oldData: selector, data: fields }), 'data.'),
    },
    'POST /webapp/deleteSelector': {
      success: [
        {
          why: 'what is not there is no error',
          body: data({ ...selector, priority: 77 }),
          status: 200,
          shows: enveloped(true),
        },
      ],
      unknown: null,
      conflict: null,
    },
    'POST /webapp/findGlobalProperty': {
      success: [{ why: 'lists', body: {}, status: 200 }],
      unknown: null,
      conflict: null,
    },
    'POST /webapp/getGlobalProperty': {
      success: [{ why: 'shows it', body: { name: property.name }, status: 200 }],
      unknown: [{ why: 'an unknown name gives no data', body: { name: 'other' }, status: 200 }],
      conflict: null,
      malformed: [{ why: 'no name', body: {}, status: 400, field: 'name' }],
    },
    'POST /webapp/saveGlobalProperty': {
      success: [{ why: 'creates', first: noProperty, body: data(property), status: 200, shows: enveloped(property) }],
      unknown: null,
      conflict: [{ why: 'a name that is taken', body: data(property), status: 409, field: 'name' }],
      malformed: badProperties(data, 'data.'),
    },
    'POST /webapp/updateGlobalProperty': {
      success: [{ why: 'overwrites', body: data(property), status: 200, shows: enveloped(property) }],
      unknown: [
        { why: 'a property that is not there', first: noProperty, body: data(property), status: 404, field: 'name' },
      ],
      conflict: null,
      malformed: badProperties(data, 'data.'),
    },
    'POST /webapp/deleteGlobalProperty': {
      success: [
        { why: 'unknown names are no error', body: data({ name: 'other' }), status: 200, shows: enveloped(true) },
      ],
      unknown: null,
      conflict: null,
    },
    'POST /webapp/findExactMatchSourceSelector': {
      success: [{ why: 'lists', status: 200 }],
      unknown: null,
      conflict: null,
    },
    'POST /webapp/saveExactMatchSourceSelector': {
      success: [
        {
          why: 'creates',
          body: {
            resourceGroupId: 'global',
            updateTime: '2026-01-31 23:59:59',
            source: 'cli',
            environment: 'test',
            queryType: 'SELECT',
          },
          status: 200,
          shows: { data: { source: 'cli' } },
        },
      ],
      unknown: null,
      conflict: [
        {
          why: 'one that is there',
          body: { resourceGroupId: 'global', source: 'cli', environment: 'test', queryType: 'SELECT' },
          status: 409,
          field: 'name',
        },
      ],
      malformed: [
        {
          why: 'no time',
          body: { resourceGroupId: 'g', updateTime: 'soon', source: 'cli', environment: 'test', queryType: 'SELECT' },
          status: 400,
          field: 'updateTime',
        },
      ],
    },

    'GET /entity': {
      success: [{ why: 'lists the types', status: 200, shows: ['GATEWAY_BACKEND', 'RESOURCE_GROUP', 'SELECTOR'] }],
      unknown: null,
      conflict: null,
    },
    'GET /entity/{entityType}': {
      success: [
        { why: 'lists groups', path: { entityType: 'RESOURCE_GROUP' }, status: 200 },
        { why: 'lists selectors', path: { entityType: 'SELECTOR' }, status: 200 },
        { why: 'lists clusters', path: { entityType: 'GATEWAY_BACKEND' }, status: 200 },
      ],
      unknown: [{ why: 'an unknown type', path: { entityType: 'OTHER' }, status: 400, field: 'entityType' }],
      conflict: null,
    },
    'POST /entity': {
      success: [
        { why: 'creates a group', query: 'entityType=RESOURCE_GROUP', body: group('entity'), status: 200 },
        {
          why: 'overwrites a group',
          query: 'entityType=RESOURCE_GROUP',
          body: { ...group('base'), ...groupId },
          status: 200,
        },
        { why: 'stores a selector', query: 'entityType=SELECTOR', body: selector, status: 200 },
        {
          why: 'stores a cluster',
          query: 'entityType=GATEWAY_BACKEND',
          body: { name: 'entity-1', proxyTo: 'http://entity-1:1', active: false, routingGroup: 'g' },
          status: 200,
          shows: '',
        },
      ],
      unknown: [
        { ...unknownGroup({ ...group('x'), ...noGroupId }), query: 'entityType=RESOURCE_GROUP' },
        { ...lost({ ...selector, ...noGroupId }, 'resourceGroupId'), query: 'entityType=SELECTOR' },
      ],
      conflict: [
        {
          why: 'a name that is taken',
          query: 'entityType=RESOURCE_GROUP',
          body: group('base'),
          status: 409,
          field: 'name',
        },
      ],
      malformed: [
        { why: 'no type', body: selector, status: 400, field: 'entityType' },
        { why: 'another type', query: 'entityType=OTHER', body: selector, status: 400, field: 'entityType' },
        { why: 'a cluster without name', query: 'entityType=GATEWAY_BACKEND', body: {}, status: 400, field: 'name' },
        { why: 'a group without name', query: 'entityType=RESOURCE_GROUP', body: {}, status: 400, field: 'name' },
        {
          why: 'a selector without group',
          query: 'entityType=SELECTOR',
          body: {},
          status: 400,
          field: 'resourceGroupId',
        },
        { why: 'null', query: 'entityType=SELECTOR', body: 'null', status: 400 },
        { why: 'broken JSON', query: 'entityType=SELECTOR', body: '{', status: 400 },
        { why: 'no body', query: 'entityType=SELECTOR', status: 400 },
      ],
    },
  };
}
