import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { attack, send } from './attack.ts';
import { startTarget, type Target } from './target.ts';

const MB = 1_000_000;

describe('the external rules service', () => {
  let target: Target;
  let service: Server;
  let answer = Buffer.from('{"routingGroup":"adhoc"}');
  beforeAll(async () => {
    service = createServer((request, response) => {
      request.resume().on('end', () => {
        response.setHeader('content-type', 'application/json');
        response.end(answer);
      });
    });
    service.listen(0, '127.0.0.1');
    await once(service, 'listening');
    const urlPath = `http://127.0.0.1:${(service.address() as AddressInfo).port}/`;
    target = await startTarget({
      routingRules: {
        rulesType: 'EXTERNAL',
        // The service is asked again and again, whatever it answers.
        rulesExternalConfiguration: { urlPath, failureThreshold: 1000 },
      },
    });
  });
  afterAll(async () => {
    await target?.close();
    service?.closeAllConnections();
    service?.close();
  });

  const filled = (size: number, start: string, unit: string, end: string) =>
    Buffer.from(start + unit.repeat(Math.floor(size / unit.length)) + end);
  const headers = Array.from({ length: 4_000 }, (_, index) => `"x-header-${index}":"${'v'.repeat(200)}"`);
  const requestCount = async (outcome: string) => {
    const { text } = await send(target, '/metrics?name[]=engine_gateway_external_rules_requests_total');
    return Number(new RegExp(`requests_total\\{outcome="${outcome}"\\} (\\d+)`).exec(text)?.[1] ?? 0);
  };

  test.each([
    ['15 MB of text', 'failed', filled(15 * MB, '{"routingGroup":"', 'a', '"}')],
    ['15 MB of brackets', 'failed', filled(15 * MB, '', '[', '')],
    ['15 MB of keys', 'failed', filled(15 * MB, '{', '"a":1,', '"routingGroup":"adhoc"}')],
    ['1 MB of brackets', 'failed', filled(MB, '', '[', '')],
    ['1 MB of keys', 'failed', filled(MB, '{', '"a":1,', '"routingGroup":"adhoc"}')],
    ['1 MB of escapes', 'answered', filled(MB, '{"a":"', '\\u0061', '","routingGroup":"adhoc"}')],
    ['a group of 1 MB', 'answered', filled(MB, '{"routingGroup":"', 'g', '"}')],
    ['errors of 1 MB', 'errors', filled(MB, '{"errors":["', 'e', '"]}')],
    ['4,900 errors', 'errors', filled(4_900 * 103, '{"errors":[', `"${'e'.repeat(100)}",`, '"e"]}')],
    ['4,000 header lines', 'failed', Buffer.from(`{"routingGroup":"adhoc","externalHeaders":{${headers.join()}}}`)],
  ])('answers %s', async (name, outcome, body) => {
    answer = body;
    const before = await requestCount(outcome);
    await attack(target, `the rules service answers ${name}`, () =>
      send(target, '/v1/statement', { method: 'POST', body: 'SELECT 1' }),
    ).finally(() => {
      answer = Buffer.from('{"routingGroup":"adhoc"}');
    });
    expect(await requestCount(outcome)).toBeGreaterThan(before);
  });
});
