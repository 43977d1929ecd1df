import { type Static, Type } from 'typebox';
import { malformed } from './errors.ts';

/** Query of a list of which callers may read a page: without it they get the whole list. */
export const ListPage = Type.Object({
  limit: Type.Optional(
    Type.String({ pattern: '^[1-9][0-9]{0,5}$', description: 'Elements of a page; all when absent.' }),
  ),
  after: Type.Optional(
    Type.String({
      maxLength: 1024,
      description: 'Name of the last element of the page before: its successors follow.',
    }),
  ),
});

/**
 * Returns the elements that the query asks for.
 * @throws GatewayError EG_MALFORMED if no element has the name `after`
 */
export function listPageOf<T>(elements: readonly T[], query: unknown, nameOf: (element: T) => string): readonly T[] {
  const { limit, after } = query as Static<typeof ListPage>;
  const last = after === undefined ? -1 : elements.findLastIndex((element) => nameOf(element) === after);
  if (after !== undefined && last === -1) {
    throw malformed([{ field: 'after', message: 'must be the name of an element of the list' }]);
  }
  return elements.slice(last + 1, limit === undefined ? undefined : last + 1 + Number(limit));
}
