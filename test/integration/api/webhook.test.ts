import { once } from 'node:events';
import { request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { admissionWebhook } from '../../../src/api/webhook.ts';
import { hasOpenssl, localCertificate } from '../../support/certificates.ts';

/** A reply: its status and body, or what the connection failed of. */
type Reply = { readonly status: number | undefined; readonly text: string };

describe.skipIf(!hasOpenssl)('the admission webhook', () => {
  const { authority, certificate } = localCertificate();
  const reviewed: string[] = [];
  const server = admissionWebhook(
    ({ metadata: { name } }) => {
      reviewed.push(name);
      return name === 'good' ? null : `NameConflict: the name ${name} is taken`;
    },
    pino({ level: 'silent' }),
  );
  let port: number;
  beforeAll(async () => {
    server.setSecureContext({ cert: certificate.cert, key: certificate.key });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    port = (server.address() as AddressInfo).port;
  });
  afterAll(async () => {
    server.close();
    server.closeAllConnections();
  });

  const send = (body: string, announced = Buffer.byteLength(body)): Promise<Reply> =>
    new Promise((resolve) => {
      const call = request({ host: '127.0.0.1', port, method: 'POST', ca: authority.cert, agent: false });
      call.setHeader('content-length', announced);
      call.on('error', (error: NodeJS.ErrnoException) => resolve({ status: undefined, text: error.code ?? '' }));
      call.on('response', async (response) => {
        const text = (await Array.fromAsync(response).catch(() => [])).join('');
        resolve({ status: response.statusCode, text });
        call.destroy();
      });
      // With more announced it is not complete, so that it is not ended.
      if (announced === Buffer.byteLength(body)) call.end(body);
      else call.write(body);
    });
  const object = (name: string, more: object = {}, spec: object = { routingGroup: 'adhoc' }) => ({
    ...{ apiVersion: 'enginegateway.dev/v1beta1', kind: 'EngineCluster', spec, ...more },
    metadata: {
      name,
      namespace: 'default',
      uid: name,
      resourceVersion: '1',
      ...(more as { metadata?: object }).metadata,
    },
  });
  const review = async (operation: string, of: object | null, oldObject: object | null = null) => {
    const { status, text } = await send(JSON.stringify({ request: { uid: 'u1', operation, object: of, oldObject } }));
    expect(status).toBe(200);
    return (JSON.parse(text) as { response: object }).response;
  };

  test('responds as the API server expects', async () => {
    expect(await review('CREATE', object('good'))).toEqual({ uid: 'u1', allowed: true });
    reviewed.length = 0;
    expect(await review('CREATE', object('bad'))).toEqual({
      ...{ uid: 'u1', allowed: false },
      status: { code: 422, reason: 'Invalid', message: 'NameConflict: the name bad is taken' },
    });
    // What it needs may be on its way.
    expect(reviewed).toEqual(['bad', 'bad']);
  });

  test.each<readonly [what: string, operation: string, of: object | null, old: object | null]>([
    ['a deletion', 'DELETE', null, object('bad')],
    ['an unchanged spec', 'UPDATE', object('bad', { metadata: { labels: { a: 'b' } } }), object('bad')],
    ['what is being deleted', 'UPDATE', object('bad', { metadata: { deletionTimestamp: 't' } }, {}), object('bad')],
    ['another kind', 'CREATE', object('bad', { kind: 'Other' }), null],
  ])('%s passes', async (_, operation, of, old) => {
    expect(await review(operation, of, old)).toEqual({ uid: 'u1', allowed: true });
  });

  test('bodies that are no review, too large or too slow end, and others are served meanwhile', async () => {
    const slow = send('{"request": ', 1_000);
    expect((await send('no JSON')).status).toBe(400);
    expect((await send('{}')).status).toBe(400);
    expect((await send(`"${'x'.repeat(5 * 1024 * 1024)}"`)).status).not.toBe(200);
    expect(await review('CREATE', object('good'))).toEqual({ uid: 'u1', allowed: true });
    expect((await slow).status).not.toBe(200);
  });

  test('more reviews than may wait get 503, with which the API server admits', async () => {
    const body = JSON.stringify({ request: { uid: 'u1', operation: 'CREATE', object: object('bad') } });
    const replies = await Promise.all(Array.from({ length: 20 }, () => send(body)));
    const statuses = replies.map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([200, 503]));
    expect(statuses.filter((status) => status === 200).length).toBeGreaterThanOrEqual(10);
  });
});
