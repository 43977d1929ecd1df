import { Type } from 'typebox';
import { GatewayError } from '../../model/errors.ts';
import {
  parseSelectorCreate,
  parseSelectorMatch,
  parseSelectorUpdate,
  Selector,
  SelectorCreate,
  SelectorMatch,
  type SelectorRow,
  SelectorUpdate,
} from '../../model/selector.ts';
import type { Checked } from '../../model/validation.ts';
import type { GroupWrite, ResourceGroupStore } from '../../store/resourceGroupStore.ts';
import { answer, reference } from '../schemas.ts';
import { GroupIdInPath, groupIdInPath, groupIdInQuery, groupQuery } from './groupId.ts';
import { checkedBody, type RestCalls } from './restCalls.ts';
import type { TableChange } from './tableChange.ts';
import { useSchema, type WebappCalls } from './webappCalls.ts';

type BodyOf<Parse extends (value: unknown) => Checked<unknown>> =
  ReturnType<Parse> extends Checked<infer Value> ? Value : never;

const row = reference(Selector);

const selectorCreation: TableChange<BodyOf<typeof parseSelectorCreate>> = {
  body: reference(SelectorCreate),
  row,
  parse: parseSelectorCreate,
  apply: async (store, selector) => ({ kind: 'Selector', before: null, ...(await store.selectors.create(selector)) }),
};

/** Changes every selector that equals `current` to `update`. */
const selectorUpdate: TableChange<BodyOf<typeof parseSelectorUpdate>> = {
  body: reference(SelectorUpdate),
  row,
  parse: parseSelectorUpdate,
  apply: async (store, { current, update }) => ({
    kind: 'Selector',
    ...(await store.selectors.update(current, update)),
  }),
};

async function deleted(store: ResourceGroupStore, selector: SelectorRow): Promise<GroupWrite> {
  const count = await store.selectors.delete(selector);
  return { kind: 'Selector', before: count === 0 ? null : selector, row: null, warnings: [] };
}

/** Selectors below the product's path. */
export function selectorRoutes(calls: RestCalls): void {
  const rows = answer('The selectors, highest priority first.', Type.Array(row));
  const stored = 'The stored selector.';
  const list = { summary: 'Lists all selectors' };
  calls.list('/selector/read', list, rows, () => (store) => store.selectors.all(null));
  const ofGroup = { summary: 'Lists the selectors of a resource group', params: GroupIdInPath };
  calls.list('/selector/read/:resourceGroupId', ofGroup, rows, (request) => {
    const id = groupIdInPath(request);
    return (store) => store.selectors.all(id);
  });
  const creation = {
    summary: 'Creates a selector',
    description: 'Without resourceGroupId it points to the newest group, which the answer and the header Warning name.',
  };
  calls.change('/selector/create', creation, stored, selectorCreation);
  const update = {
    summary: 'Changes a selector',
    description: 'Every row equal to current in all columns becomes update; without one, update is created.',
  };
  calls.change('/selector/update', update, stored, selectorUpdate);
  const deletion = {
    summary: 'Deletes a selector',
    description: 'Every row equal in all columns; none is no error.',
    body: reference(SelectorMatch),
  };
  calls.delete('/selector/delete', deletion, (request) => {
    const selector = checkedBody(request, parseSelectorMatch);
    return (store) => deleted(store, selector);
  });
}

/** Selectors for the web application, which calls the two sides of a change `oldData` and `data`. */
export function webappSelectorRoutes(calls: WebappCalls): void {
  calls.read('findSelector', 'Lists selectors', groupQuery, Type.Array(row), (store) => store.selectors.all(null));
  calls.read('getSelector', 'Shows the first selector of a resource group', groupQuery, row, async (store, query) => {
    const [first] = await store.selectors.all(groupIdInQuery(query));
    return first ?? null;
  });
  calls.change('saveSelector', 'Creates a selector', selectorCreation);
  calls.write('updateSelector', 'Changes a selector', {
    body: Type.Object({ useSchema, data: reference(SelectorMatch), oldData: reference(SelectorMatch) }),
    answer: row,
    parse: (data, oldData) => renamed(selectorUpdate.parse({ current: oldData, update: data })),
    apply: async (store, change) => {
      try {
        return await selectorUpdate.apply(store, change);
      } catch (error) {
        throw error instanceof GatewayError ? renamedError(error) : error;
      }
    },
  });
  calls.delete('deleteSelector', 'Deletes a selector', reference(SelectorMatch), parseSelectorMatch, deleted);
}

/** The web application's name of a field of `{current, update}`. */
function fieldOfEnvelope(field: string): string {
  return field.replace(/^current\b/, 'oldData').replace(/^update\b/, 'data');
}

/** The web application's names for the two sides of a change. */
function renamed<T>(checked: Checked<T>): Checked<T> {
  if (checked.ok) return checked;
  const problems = checked.problems.map(({ field, message }) => ({ field: fieldOfEnvelope(field), message }));
  return { ok: false, problems };
}

function renamedError({ code, message, field, retryAfterSeconds, cause }: GatewayError): GatewayError {
  return new GatewayError(code, fieldOfEnvelope(message), {
    ...(field === undefined ? {} : { field: fieldOfEnvelope(field) }),
    ...(retryAfterSeconds === undefined ? {} : { retryAfterSeconds }),
    cause,
  });
}
