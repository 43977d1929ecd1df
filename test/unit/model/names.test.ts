import { expect, test } from 'vitest';
import { productNames } from '../../../src/model/names.ts';

test.each([
  [
    'Engine',
    'X-Engine-Routing-Group',
    'engine',
    'engineRequestUser',
    'Engine-UI-Token',
    'EG.',
    '/engine-gateway',
    'engineStatus',
  ],
  [
    'Trino',
    'X-Trino-Routing-Group',
    'trino',
    'trinoRequestUser',
    'Trino-UI-Token',
    'EG.',
    '/trino-gateway',
    'trinoStatus',
  ],
])('names of %s', (product, header, segment, userObject, cookie, prefix, path, status) => {
  const names = productNames(product);
  expect([
    names.header('Routing-Group'),
    names.headerKey('Routing-Group'),
    names.pathSegment,
    names.requestUserObject,
    names.uiTokenCookies[0],
    names.stickyCookiePrefix,
    names.gatewayPath,
    names.statusField,
  ]).toEqual([header, header.toLowerCase(), segment, userObject, cookie, prefix, path, status]);
});
