import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { call, callWhole } from './call.ts';
import { SLOW_MS } from './queryClient.ts';
import type { DeclaredGroups, PropertyView, ResourceGroupView, SelectorView } from './types.ts';

export interface ResourceGroups {
  readonly groups: readonly ResourceGroupView[];
  readonly selectors: readonly SelectorView[];
  readonly properties: readonly PropertyView[];
  readonly declared: readonly DeclaredGroups[];
}

/** Resource groups of a database of the server; empty: the gateway's database. */
export function useResourceGroups(useSchema: string) {
  return useQuery({
    queryKey: ['resourceGroups', useSchema],
    queryFn: async ({ signal }): Promise<ResourceGroups> => {
      const read = <T>(path: string) => call<readonly T[]>(`/webapp/${path}`, { body: { useSchema }, signal });
      const place = useSchema === '' ? '' : `?useSchema=${encodeURIComponent(useSchema)}`;
      const [groups, selectors, properties, declared] = await Promise.all([
        read<ResourceGroupView>('findResourceGroup'),
        read<SelectorView>('findSelector'),
        read<PropertyView>('findGlobalProperty'),
        call<readonly DeclaredGroups[]>(`/api/resourcegroups/declared${place}`, { method: 'GET', signal }),
      ]);
      return { groups, selectors, properties, declared };
    },
    // Four calls each time.
    refetchInterval: SLOW_MS,
  });
}

/** A call of the web application, with its arguments in addition to the database. */
export interface GroupsChange {
  readonly path: string;
  readonly data: object;
  readonly oldData?: object;
  /** True takes over fields of other managers, if a resource declares the row (ADMIN). */
  readonly force?: boolean;
}

export function useChange(useSchema: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: ({ path, force = false, ...change }: GroupsChange) =>
      callWhole(`/webapp/${path}${force ? '?force=true' : ''}`, { body: { useSchema, ...change } }),
    onSuccess: () => client.invalidateQueries({ queryKey: ['resourceGroups', useSchema] }),
  });
}
