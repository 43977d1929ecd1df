import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { call, callWhole } from './call.ts';
import { SLOW_MS } from './queryClient.ts';
import type { DeclaredGroups, GlobalProperty, ResourceGroup, Selector } from './types.ts';

/** Everything that a database holds of them. */
export interface ResourceGroups {
  readonly groups: readonly ResourceGroup[];
  readonly selectors: readonly Selector[];
  readonly properties: readonly GlobalProperty[];
  /** Which of these rows resources declare. */
  readonly declared: readonly DeclaredGroups[];
}

/** Resource groups of a database of the server; empty: the gateway's own. */
export function useResourceGroups(useSchema: string) {
  return useQuery({
    queryKey: ['resourceGroups', useSchema],
    queryFn: async ({ signal }): Promise<ResourceGroups> => {
      const read = <T>(path: string) => call<readonly T[]>(`/webapp/${path}`, { body: { useSchema }, signal });
      const place = useSchema === '' ? '' : `?useSchema=${encodeURIComponent(useSchema)}`;
      const [groups, selectors, properties, declared] = await Promise.all([
        read<ResourceGroup>('findResourceGroup'),
        read<Selector>('findSelector'),
        read<GlobalProperty>('findGlobalProperty'),
        call<readonly DeclaredGroups[]>(`/api/resourcegroups/declared${place}`, { method: 'GET', signal }),
      ]);
      return { groups, selectors, properties, declared };
    },
    // Four calls each time.
    refetchInterval: SLOW_MS,
  });
}

/** A change: a call of the web application and what it is given beside the database. */
export interface Change {
  readonly path: string;
  readonly data: object;
  /** A selector as it was. */
  readonly oldData?: object;
  /** Fields of other managers are taken over, where a resource declares the row (ADMIN). */
  readonly force?: boolean;
}

/** Makes changes in a database, and has it read again. */
export function useChange(useSchema: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ path, force = false, ...change }: Change) =>
      callWhole(`/webapp/${path}${force ? '?force=true' : ''}`, { body: { useSchema, ...change } }),
    onSuccess: () => client.invalidateQueries({ queryKey: ['resourceGroups', useSchema] }),
  });
}
