import { ApiException } from '@kubernetes/client-node';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { CLUSTER_TLS_LABEL, ReferencedObjects } from '../../../src/operator/sources/kubernetes/referencedObjects.ts';

type Found = { readonly labels: Record<string, string>; readonly data: Record<string, string> } | ApiException<string>;

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test('objects are read when they are asked about, and every minute; a Secret needs its label; the last good data stay', async () => {
  const labels = { [CLUSTER_TLS_LABEL]: 'true' };
  let found: Found = new ApiException(404, 'x', '', {});
  const reads: string[] = [];
  const notify = vi.fn();
  const readObject = async (...path: readonly string[]) => {
    reads.push(path.join('/'));
    if (found instanceof ApiException) throw found;
    return { annotations: {}, ...found };
  };
  const objects = new ReferencedObjects({ readObject }, notify);
  const secret = () => objects.get('Secret', 'ns', 'client');
  expect(secret()).toMatchObject({ ok: false, reason: 'RefPending' });
  await vi.advanceTimersByTimeAsync(0);
  expect(secret()).toMatchObject({ ok: false, reason: 'RefNotFound', message: 'Secret ns/client does not exist' });
  const states: [Found, object][] = [
    [
      { labels: {}, data: { a: '1' } },
      { ok: false, reason: 'RefNotLabelled' },
    ],
    [
      { labels, data: { a: '1' } },
      { ok: true, data: { a: '1' } },
    ],
    [
      { labels, data: { a: '1' } },
      { ok: true, data: { a: '1' } },
    ],
    [new ApiException(503, 'x', '', {}), { ok: true, data: { a: '1' } }],
    [
      { labels, data: { a: '2' } },
      { ok: true, data: { a: '2' } },
    ],
    [new ApiException(404, 'x', '', {}), { ok: false, reason: 'RefNotFound' }],
    [new ApiException(403, 'x', '', {}), { ok: false, reason: 'RefUnreadable' }],
  ];
  for (const [next, expected] of states) {
    found = next;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(secret()).toMatchObject(expected);
  }
  // Called for changes only: not for equal data, and not for a failed read that keeps them.
  expect(notify).toHaveBeenCalledTimes(6);
  expect(new Set(reads)).toEqual(new Set(['Secret/ns/client']));
  objects.stop();
});
