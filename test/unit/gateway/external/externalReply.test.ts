import { describe, expect, test } from 'vitest';
import { parseReply } from '../../../../src/gateway/external/externalReply.ts';
import { productNames } from '../../../../src/model/names.ts';

const names = productNames('Engine');
const nothingExcluded = new Set<string>();
const parse = (value: unknown) => parseReply(JSON.stringify(value), nothingExcluded, names);

describe('valid answers', () => {
  test.each<[string, unknown, unknown]>([
    ['a group alone', { routingGroup: 'etl' }, { routingGroup: 'etl', errors: null, headers: {} }],
    ['no errors', { routingGroup: 'etl', errors: null }, { routingGroup: 'etl', errors: null, headers: {} }],
    ['an empty list of errors', { routingGroup: 'etl', errors: [] }, { routingGroup: 'etl', errors: [], headers: {} }],
    ['errors without a group', { errors: ['no'] }, { routingGroup: null, errors: ['no'], headers: {} }],
    [
      'headers, the last spelling of a name counting',
      { routingGroup: 'etl', externalHeaders: { 'X-Tag': 'a', 'x-tag': 'b' } },
      { routingGroup: 'etl', errors: null, headers: { 'x-tag': 'b' } },
    ],
    [
      'headers that only a connection or the gateway says are left out',
      {
        routingGroup: 'etl',
        externalHeaders: Object.fromEntries(
          [
            'Connection',
            'content-length',
            'HOST',
            'Keep-Alive',
            'TE',
            'Transfer-Encoding',
            'Upgrade',
            'Expect',
            'Via',
            'Forwarded',
            'X-Forwarded-Host',
            'X-Kept',
          ].map((name) => [name, '1']),
        ),
      },
      { routingGroup: 'etl', errors: null, headers: { 'X-Kept': '1' } },
    ],
    ['unknown fields', { routingGroup: 'etl', version: 2 }, { routingGroup: 'etl', errors: null, headers: {} }],
  ])('%s', (_name, sent, reply) => {
    expect(parse(sent)).toEqual({ reply });
  });

  test('names of excludeHeaders are not set either, in any letter case', () => {
    const sent = JSON.stringify({ routingGroup: 'etl', externalHeaders: { 'X-SECRET': '1', 'X-Tag': '2' } });
    expect(parseReply(sent, new Set(['x-secret']), names)).toEqual({
      reply: { routingGroup: 'etl', errors: null, headers: { 'X-Tag': '2' } },
    });
  });
});

describe('nonsense', () => {
  test.each<[string, string, string]>([
    ['no JSON', 'etl', 'its answer is not JSON'],
    ['nothing', '', 'its answer is not JSON'],
    ['a text', '"etl"', 'its answer is not a JSON object'],
    ['null', 'null', 'its answer is not a JSON object'],
    ['a list', '[{"routingGroup":"etl"}]', 'its answer is not a JSON object'],
    ['no group', '{}', 'routingGroup does not name exactly one group'],
    ['null for the group', '{"routingGroup":null}', 'routingGroup does not name exactly one group'],
    ['an empty group', '{"routingGroup":""}', 'routingGroup does not name exactly one group'],
    ['a blank group', '{"routingGroup":"  "}', 'routingGroup does not name exactly one group'],
    ['several groups', '{"routingGroup":["etl","adhoc"]}', 'routingGroup does not name exactly one group'],
    ['a number', '{"routingGroup":7}', 'routingGroup does not name exactly one group'],
    ['a text for errors', '{"routingGroup":"etl","errors":"no"}', 'errors is neither null nor an array of texts'],
    ['numbers for errors', '{"routingGroup":"etl","errors":[1]}', 'errors is neither null nor an array of texts'],
    ['a list of headers', '{"routingGroup":"etl","externalHeaders":[]}', 'externalHeaders is not an object'],
    ['null for a header', '{"routingGroup":"etl","externalHeaders":{"A":null}}', 'externalHeaders.A is not a text'],
    [
      'a line break in a value',
      '{"routingGroup":"etl","externalHeaders":{"A":"b\\r\\nX-User: root"}}',
      'externalHeaders.A holds characters that no header can',
    ],
    [
      'a line break in a name',
      '{"routingGroup":"etl","externalHeaders":{"A\\r\\nB":"c"}}',
      'externalHeaders holds a name that cannot be a header name',
    ],
    ['many values', `{"errors":[${'"e",'.repeat(5_000)}"e"]}`, 'its answer has more than 5000 values'],
    ['many levels', `${'['.repeat(101)}${']'.repeat(101)}`, 'its answer is nested more than 100 levels deep'],
    [
      'long headers',
      `{"routingGroup":"etl","externalHeaders":{"A":"${'b'.repeat(65_536)}"}}`,
      'externalHeaders is longer than 65536 characters',
    ],
    [
      'an empty name',
      '{"routingGroup":"etl","externalHeaders":{"":"c"}}',
      'externalHeaders holds a name that cannot be a header name',
    ],
  ])('%s', (_name, text, problem) => {
    expect(parseReply(text, nothingExcluded, names)).toEqual({ problem });
  });
});
