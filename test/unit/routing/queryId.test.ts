import { RE2JS } from 're2js';
import { expect, test } from 'vitest';
import {
  coordinatorSuffix,
  ProxiedPaths,
  recognizeQueryId,
  splitTarget,
} from '../../../src/routing/statementProtocol.ts';

const paths = new ProxiedPaths({
  additionalStatementPaths: ['/ui/api/insights/statement', '/custom/statement/'],
  extraWhitelistPaths: [RE2JS.compile('/custom/.*')],
});
const id = '20261121_015745_00000_kvhrm';

test.each([
  [`/v1/statement/queued/${id}/y1a2/1`, id],
  [`/v1/statement/scheduled/${id}/y1a2/1`, id],
  [`/v1/statement/executing/${id}/y1a2/17`, id],
  [`/v1/statement/executing/partialCancel/${id}/0/y1a2/1`, id],
  [`/v1/statement/partialCancel/${id}/0`, id],
  [`/v1/statement/${id}`, id],
  [`/v1/statement/${id}/1`, id],
  ['/v1/statement/other-form', 'other-form'],
  [`/v1/statement/executing/${id};a=b/y/1`, id],
  ['/v1/statement', null],
  ['/v1/statement/', null],
  ['/v1/statement/executing', null],
  ['/v1/statement/executing/', null],
  [`/v1/statementX/${id}`, null],
  [`/v1/query/${id}`, id],
  [`/v1/query/${id}/killed`, id],
  ['/v1/query', null],
  ['/v1/query?state=RUNNING', null],
  [`/v1/queryX/${id}`, null],
  [`/custom/statement/executing/${id}/y/2`, id],
  [`/ui/api/insights/statement/queued/${id}/y/2`, id],
  [`/ui/api/query/${id}`, id],
  [`/ui/api/query/${id}/killed`, id],
  [`/ui/${id}/x/20261121_015745_00007_other`, '20261121_015745_00007_other'],
  ['/ui/api/stats', null],
  [`/ui/query.html?${id}`, id],
  [`/ui/query.html?query_id=${id}`, id],
  [`/ui/query.html?a=b&queryId=${id}`, id],
  [`/ui/query.html?QUERYID=${id}&z=1`, id],
  [`/ui/login?redirect=%2Fui%2F${id}`, id],
  [`/ui/login?redirect=%2fui%2f${id}`, id],
  [`/ui/x?query_id=1_2_3_query_id=${id}`, id],
  ['/ui/x?id=20261121_015745_00000_kvhrm', null],
  [`/v1/info?queryId=${id}`, id],
  [`/v1/statement/${id}?queryId=20261121_015745_00009_first`, '20261121_015745_00009_first'],
  [`/v1/node/${id}`, null],
  [`/oauth2/token/${id}`, null],
])('%s names %s', (url, expected) => {
  const target = splitTarget(url)!;
  expect(recognizeQueryId(paths, paths.kindOf(target.path)!, target.path, target.query)).toBe(expected);
});

test.each([
  [id, 'kvhrm'],
  ['20261121_015745_123456_a2b3c', 'a2b3c'],
  ['20261121_015745_7_kvhrm', 'kvhrm'],
  ['20261121_015745_00000_refused', null],
  ['20261121_015745_00000_KVHRM', null],
  ['20261121_015745_00000_kvhr', null],
  ['2026112a_015745_00000_kvhrm', null],
  ['20261121-015745-00000-kvhrm', null],
  ['q1', null],
])('the coordinator of %s is %s', (text, expected) => {
  expect(coordinatorSuffix(text)).toBe(expected);
});
