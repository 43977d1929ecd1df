import { expect, test } from 'vitest';
import { productNames } from '../../../src/model/names.ts';

test.each([
  ['Engine', 'X-Engine-Routing-Group', 'engine', 'engineRequestUser', 'Engine-UI-Token', 'EG.'],
  ['Trino', 'X-Trino-Routing-Group', 'trino', 'trinoRequestUser', 'Trino-UI-Token', 'TG.'],
])('names of %s', (product, header, segment, userObject, cookie, prefix) => {
  const names = productNames(product);
  expect([
    names.header('Routing-Group'),
    names.headerKey('Routing-Group'),
    names.pathSegment,
    names.requestUserObject,
    names.uiTokenCookie,
    names.stickyCookiePrefix,
  ]).toEqual([header, header.toLowerCase(), segment, userObject, cookie, prefix]);
});
