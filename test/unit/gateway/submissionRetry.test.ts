import { describe, expect, test } from 'vitest';
import type { AttemptStage } from '../../../src/gateway/exchanges/exchangeState.ts';
import type { Submission } from '../../../src/gateway/exchanges/submission.ts';
import { SubmissionRetry } from '../../../src/gateway/exchanges/submissionRetry.ts';
import { RoutingTableHolder } from '../../../src/routing/tableHolder.ts';
import { clusterAt } from '../../support/routableCluster.ts';

const table = new RoutingTableHolder();
table.setInputs({ clusters: [clusterAt('a', 'http://a:8080')], rules: null });
const cluster = table.current.clusters.get('a')!;
const reset = Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' });

function submission(kind: 'any' | 'transaction' | 'killQuery', complete = true): Submission {
  return {
    body: { complete } as Submission['body'],
    user: { user: 'me', userInfo: null },
    decision: {} as Submission['decision'],
    slots: null,
    about: kind === 'killQuery' ? { queryId: 'q', cluster } : null,
    transaction: kind === 'transaction' ? { id: 't', cluster } : null,
  };
}

describe('what follows on a failed submission', () => {
  test.each<[AttemptStage, 'any' | 'transaction' | 'killQuery', 'untilAnswered' | 'untilSent', string]>([
    ['connecting', 'any', 'untilAnswered', 'other'],
    ['connecting', 'any', 'untilSent', 'other'],
    ['connecting', 'transaction', 'untilAnswered', 'other'],
    ['connecting', 'killQuery', 'untilAnswered', 'refuse'],
    ['sent', 'any', 'untilAnswered', 'other'],
    ['sent', 'any', 'untilSent', 'giveUp'],
    ['sent', 'transaction', 'untilAnswered', 'same'],
    ['sent', 'killQuery', 'untilAnswered', 'same'],
    ['sent', 'killQuery', 'untilSent', 'giveUp'],
    ['answering', 'any', 'untilAnswered', 'giveUp'],
    ['answering', 'transaction', 'untilAnswered', 'giveUp'],
  ])('%s, for %s, with retrySubmissions %s: %s', (stage, kind, setting, expected) => {
    const retry = new SubmissionRetry(submission(kind), kind !== 'any');
    expect(retry.after({ cluster, error: reset, stage, reason: 'broken' }, setting).next).toBe(expected);
    expect(retry.attempts).toEqual([{ cluster: 'a', error: 'broken' }]);
  });

  test('the one cluster that can take it gets it again once', () => {
    const retry = new SubmissionRetry(submission('transaction'), true);
    const failure = { cluster, error: reset, stage: 'sent', reason: 'broken' } as const;
    expect(retry.after(failure, 'untilAnswered').next).toBe('same');
    expect(retry.after(failure, 'untilAnswered').next).toBe('giveUp');
    expect(retry.isBound).toBe(true);
  });

  test('a transaction is no longer bound to a cluster that cannot be connected to', () => {
    const retry = new SubmissionRetry(submission('transaction'), true);
    retry.after({ cluster, error: reset, stage: 'connecting', reason: 'refused' }, 'untilAnswered');
    expect(retry.isBound).toBe(false);
  });

  test('a body that is not kept whole cannot be sent again', () => {
    const retry = new SubmissionRetry(submission('any', false), false);
    expect(retry.after({ cluster, error: reset, stage: 'connecting', reason: 'x' }, 'untilAnswered').next).toBe(
      'giveUp',
    );
  });
});
