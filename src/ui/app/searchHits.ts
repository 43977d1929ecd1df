import { useQuery } from '@tanstack/react-query';
import { getter, isGatewayId, isMissing, RULES, wholeQuery } from '../client/resources.ts';
import type { ClusterState, RuleInventory } from '../client/types.ts';
import { clusterAddress, groupAddress, queryAddress, ruleAddress } from '../components/links.ts';
import { useRole, useSees } from '../session/session.ts';
import type { Page } from './pages.ts';

export interface Hit {
  readonly kind: 'Queries' | 'Pages' | 'Backends' | 'Routing groups' | 'Rules' | 'History';
  readonly name: string;
  /** Additional text; may be empty. */
  readonly about: string;
  readonly address: string;
}

const MAX_HITS = 8;
/** Maximum age of lists while the search is open, in milliseconds. */
const LIST_AGE_MS = 30_000;

/**
 * Finds what a text matches and the user may see. An empty text matches all pages.
 * @param settled the debounced text; used to look up queries
 */
export function useHits(pages: readonly Page[], text: string, settled: string): readonly Hit[] {
  const seesClusters = useSees('cluster');
  const seesGroups = useSees('limits');
  const seesHistory = useSees('history');
  const mayListRules = useRole('ADMIN');
  const seesRules = useSees('routing-rules') && mayListRules;
  const clusters = useQuery({
    queryKey: ['search', 'clusters'],
    queryFn: getter<readonly ClusterState[]>('/api/clusters'),
    enabled: seesClusters || seesGroups,
    staleTime: LIST_AGE_MS,
  });
  const rules = useQuery({
    queryKey: ['search', ...RULES],
    queryFn: getter<RuleInventory>('/api/rules'),
    enabled: seesRules,
    staleTime: LIST_AGE_MS,
  });
  const queries = useQueryHits(text, settled);
  const wanted = text.toLowerCase();
  const fits = (...texts: readonly string[]) => texts.some((each) => each.toLowerCase().includes(wanted));
  const pageHits = pages
    .filter(({ title }) => fits(title))
    .map(({ title, path }): Hit => ({ kind: 'Pages', name: title, about: '', address: `/${path}` }));
  if (wanted === '') return pageHits;
  const all = clusters.data ?? [];
  const groups = [...new Set(all.flatMap(({ routingGroup }) => (routingGroup === null ? [] : [routingGroup])))];
  return [
    ...queries,
    ...pageHits,
    ...(seesClusters ? all : [])
      .filter(({ name, proxyTo }) => fits(name, proxyTo ?? ''))
      .slice(0, MAX_HITS)
      .map(({ name, routingGroup, status }): Hit => {
        const about = [routingGroup ?? '', status.toLowerCase()].filter(Boolean).join(', ');
        return { kind: 'Backends', name, about, address: clusterAddress(name) };
      }),
    ...(seesGroups ? groups : [])
      .filter((name) => fits(name))
      .slice(0, MAX_HITS)
      .map((name): Hit => ({ kind: 'Routing groups', name, about: '', address: groupAddress(name) })),
    ...(rules.data?.rules ?? [])
      .filter(({ name, description }) => fits(name, description))
      .slice(0, MAX_HITS)
      .map(({ name, description }): Hit => ({ kind: 'Rules', name, about: description, address: ruleAddress(name) })),
    ...(seesHistory && queries.length === 0 ? [historyHit(text)] : []),
  ];
}

const historyHit = (text: string): Hit => ({
  ...{ kind: 'History', name: `Queries whose text has “${text}”`, about: '' },
  address: `/history?text=${encodeURIComponent(text)}`,
});

/** Engine query ids look like `20261123_120000_00001_abcde`; ids of queued queries end with `_queue`. */
function isLikeId(text: string): boolean {
  return /^\d{8}_\d{6}_\d{5}_\w{1,32}$/.test(text) || (isGatewayId(text) && !/\s/.test(text));
}

function useQueryHits(text: string, settled: string): readonly Hit[] {
  const sees = useSees('history');
  const query = useQuery({ ...wholeQuery(settled), enabled: sees && isLikeId(settled) });
  if (!sees || !isLikeId(text)) return [];
  const { data, error } = text === settled ? query : { data: undefined, error: null };
  const about =
    data === undefined
      ? isMissing(error)
        ? 'not in the history that you may see'
        : ''
      : [data.user ?? 'user not known', data.cluster || 'waits for a cluster'].join(', ');
  return [{ kind: 'Queries', name: text, about, address: queryAddress(text) }];
}
