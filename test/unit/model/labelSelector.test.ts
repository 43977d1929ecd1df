import { expect, test } from 'vitest';
import { type LabelSelector, labelsFor, matchesLabels, parseLabelSelector } from '../../../src/model/labelSelector.ts';

const parsed = (text: string): LabelSelector => {
  const selector = parseLabelSelector(text);
  if ('problem' in selector) throw new Error(selector.problem);
  return selector;
};

test.each([
  ['team=etl', [{ team: 'etl' }], [{}, { team: 'bi' }], { team: 'etl' }],
  ['team==etl', [{ team: 'etl' }], [{ team: 'ETL' }], { team: 'etl' }],
  ['team!=etl', [{}, { team: 'bi' }], [{ team: 'etl' }], {}],
  ['team=', [{ team: '' }], [{}, { team: 'etl' }], { team: '' }],
  ['env in (prod, test)', [{ env: 'prod' }, { env: 'test' }], [{}, { env: 'dev' }], { env: 'prod' }],
  ['env notin (prod,test)', [{}, { env: 'dev' }], [{ env: 'prod' }], {}],
  ['example.com/routed', [{ 'example.com/routed': '' }], [{ routed: '' }], { 'example.com/routed': 'true' }],
  ['!legacy', [{}], [{ legacy: 'false' }], {}],
  [
    'team=etl,env in (prod, test),!legacy',
    [{ team: 'etl', env: 'test' }],
    [{ team: 'etl', env: 'test', legacy: '' }, { team: 'etl' }],
    { team: 'etl', env: 'prod' },
  ],
  ['env in (prod,test),env!=prod', [{ env: 'test' }], [{ env: 'prod' }], { env: 'test' }],
])('%s', (text, selected, others, created) => {
  const selector = parsed(text);
  for (const labels of selected) expect(matchesLabels(selector, labels as Record<string, string>)).toBe(true);
  for (const labels of others) expect(matchesLabels(selector, labels as Record<string, string>)).toBe(false);
  expect(labelsFor(selector)).toEqual(created);
});

test('no labels meet a selector that contradicts itself', () => {
  expect(labelsFor(parsed('a=b,a=c'))).toBeNull();
  expect(labelsFor(parsed('a,!a'))).toBeNull();
});

test.each([
  ['', '""'],
  ['team=etl,', '""'],
  ['team = = etl', 'team = = etl'],
  ['env in prod', 'env in prod'],
  ['env in (prod', 'env in (prod'],
  ['-team=etl', '-team=etl'],
  ['team=a b', 'team=a b'],
])('%j is no selector', (text, named) => {
  expect(parseLabelSelector(text)).toEqual({ problem: expect.stringContaining(named) });
});
