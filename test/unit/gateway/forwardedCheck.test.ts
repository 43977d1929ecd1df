import { expect, test } from 'vitest';
import { ForwardedCheck } from '../../../src/gateway/headers/forwardedCheck.ts';

test('changes are reported at once, what stays wrong every minute, what stays right not again', () => {
  let time = 0;
  const reports: string[] = [];
  const check = new ForwardedCheck({ now: () => 0, monotonic: () => time }, ({ cluster, honoured }) =>
    reports.push(`${time / 1000} ${cluster} ${honoured}`),
  );
  const view = { address: '10.0.0.1', scheme: 'https', host: 'gateway.example', port: 443 } as const;
  const answer = (host: string): string => `{"id":"q","nextUri":"https://${host}/v1/statement/q/1"}`;
  for (; time <= 150_000; time += 1_000) check.noteAnswer('a', 'http://a', answer('a.internal:8080'), view);
  for (; time <= 400_000; time += 1_000) check.noteAnswer('a', 'http://a', answer('gateway.example'), view);
  check.noteRefusal('a', 'http://a');
  expect(reports).toEqual(['0 a false', '60 a false', '120 a false', '151 a true', '401 a false']);
});
