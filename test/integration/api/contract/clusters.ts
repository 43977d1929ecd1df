import { expect } from 'vitest';
import type { Known, OperationRows } from './rows.ts';

/** A cluster as callers send it. */
export const cluster = (name: string) => ({
  name,
  proxyTo: `http://${name}.example:8080`,
  active: true,
  routingGroup: 'adhoc',
});
const stored = (name: string) => ({ ...cluster(name), externalUrl: cluster(name).proxyTo });
const add = 'POST /gateway/backend/modify/add';
const added = (name: string) => [[add, { body: cluster(name) }]] as const;

/** Cluster registry, public reads and the web application's calls of clusters. */
export function clusterRows(_known: Known): Record<string, OperationRows> {
  const fresh = (name: string) => ({ why: `adds ${name}`, body: cluster(name), status: 200, shows: stored(name) });
  const listed = {
    why: 'lists',
    status: 200,
    shows: expect.arrayContaining([expect.objectContaining({ name: 'c1' })]),
  };
  const nobody = { why: 'an unknown cluster', path: { name: 'nobody' }, status: 404 };
  const taken = { why: 'a name that is taken', body: cluster('c1'), status: 409, field: 'name' };
  const foreign = {
    why: 'another scheme',
    body: { ...cluster('x'), proxyTo: 'ftp://x' },
    status: 400,
    field: 'proxyTo',
  };
  const slash = { why: 'an unknown name with a slash', path: { name: 'a/b' }, status: 404 };
  const switched = (name: string): OperationRows => ({
    success: [
      { why: 'switches', path: { name: 'c1' }, status: 200, shows: '' },
      { why: 'again', path: { name: 'c1' }, query: 'force=true', status: 200 },
    ],
    unknown: [{ ...nobody, shows: `No cluster found with name: nobody, could not (de)activate` }],
    conflict: null,
    malformed: [
      { ...slash, shows: `No cluster found with name: a/b, could not (de)activate` },
      { why: `${name} of nothing`, path: { name: '' }, status: 404 },
    ],
  });
  const read = { success: [{ why: 'shows it', path: { name: 'c1' }, status: 200 }], conflict: null } as const;
  const enveloped = (data: unknown) => ({ code: 200, msg: 'Successful.', data });
  return {
    'GET /gateway': { success: [{ why: 'says ok', status: 200, shows: 'ok' }], unknown: null, conflict: null },
    'GET /gateway/backend/all': { success: [listed], unknown: null, conflict: null },
    'GET /gateway/backend/active': { success: [listed], unknown: null, conflict: null },
    [add]: { success: [fresh('new-1')], unknown: null, conflict: [taken], malformed: [foreign] },
    'POST /gateway/backend/modify/update': {
      success: [
        {
          ...fresh('c1'),
          body: { ...cluster('c1'), routingGroup: 'other' },
          shows: { ...stored('c1'), routingGroup: 'other' },
        },
        { why: 'adds what is not there', body: cluster('new-2'), status: 200, shows: stored('new-2') },
      ],
      unknown: null,
      conflict: null,
      malformed: [foreign],
    },
    'POST /gateway/backend/modify/delete': {
      success: [
        { why: 'deletes', first: added('gone-1'), body: 'gone-1', status: 200, shows: '' },
        { why: 'takes JSON', first: added('gone-2'), body: { name: 'gone-2' }, status: 200, shows: '' },
        { why: 'an unknown name is no error', body: 'nobody', status: 200 },
      ],
      unknown: null,
      conflict: null,
      malformed: [
        { why: 'no name', status: 400, field: 'name' },
        { why: 'an object without name', body: { id: 'x' }, status: 400, field: 'name' },
      ],
    },
    'POST /gateway/backend/activate/{name}': switched('activate'),
    'POST /gateway/backend/deactivate/{name}': switched('deactivate'),
    'GET /api/public/backends': {
      success: [{ ...listed, why: 'needs nobody to log in', as: null }],
      unknown: null,
      conflict: null,
    },
    'GET /api/public/backends/{name}': { ...read, unknown: [{ ...nobody, field: 'name' }], malformed: [slash] },
    'GET /api/public/backends/{name}/state': { ...read, unknown: [{ ...nobody, field: 'name' }], malformed: [slash] },
    'GET /api/clusters/{name}/drain': {
      success: [{ why: 'shows what is left', path: { name: 'c1' }, status: 200, shows: { cluster: 'c1' } }],
      unknown: [{ ...nobody, field: 'name' }],
      conflict: null,
      malformed: [slash],
    },
    'GET /api/scaling/{group}': {
      success: [{ why: 'shows the group', path: { group: 'adhoc' }, status: 200, shows: { group: 'adhoc' } }],
      unknown: [{ why: 'an unknown group', path: { group: 'nowhere' }, status: 404, field: 'group' }],
      conflict: null,
      malformed: [{ why: 'an unknown name with a slash', path: { group: 'a/b' }, status: 404 }],
    },
    'GET /api/heldDeletions': {
      success: [{ why: 'there are none', status: 200, shows: { losses: [] } }],
      unknown: null,
      conflict: null,
    },
    'POST /api/heldDeletions/confirm': {
      success: [{ why: 'there is nothing to confirm', status: 200, shows: { losses: [] } }],
      unknown: null,
      conflict: null,
    },
    'GET /engine-gateway/api/activeBackends': {
      success: [{ why: 'lists', status: 200 }],
      unknown: null,
      conflict: null,
    },
    'POST /webapp/getAllBackends': {
      success: [{ why: 'lists', status: 200, shows: { code: 200, msg: 'Successful.' } }],
      unknown: null,
      conflict: null,
    },
    'POST /webapp/saveBackend': {
      success: [{ ...fresh('new-3'), shows: enveloped(stored('new-3')) }],
      unknown: null,
      conflict: [taken],
      malformed: [foreign],
    },
    'POST /webapp/updateBackend': {
      success: [{ ...fresh('new-4'), shows: enveloped(stored('new-4')) }],
      unknown: null,
      conflict: null,
      malformed: [foreign],
    },
    'POST /webapp/deleteBackend': {
      success: [
        { why: 'deletes', first: added('gone-3'), body: { name: 'gone-3' }, status: 200, shows: enveloped(true) },
        { why: 'an unknown name is no error', body: { name: 'nobody' }, status: 200, shows: enveloped(true) },
      ],
      unknown: null,
      conflict: null,
    },
  };
}
