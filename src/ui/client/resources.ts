import { keepPreviousData, type QueryKey, queryOptions, useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { TopicName } from '../../api/events.ts';
import type { DEFAULT_PRIORITY } from '../../kinds/routingRule/spec.ts';
import { call, SLOW_MS } from './call.ts';
import { useLive } from './live.ts';
import type {
  AuditPage,
  Calibration,
  ClusterDetails,
  ClusterState,
  DeclaredGroups,
  DigestDetails,
  DigestList,
  Drain,
  GroupDetails,
  GroupState,
  HeldDeletionList,
  LimitState,
  Overview,
  ProblemList,
  PropertyView,
  QuarantineList,
  QueryPage,
  QueryReplayReport,
  QuerySeries,
  QueueList,
  RateSeries,
  ReplayState,
  ResourceGroupView,
  RuleHitList,
  RuleInventory,
  RunningQuery,
  RunningQueryList,
  SelectorView,
  Statistics,
  WholeQuery,
} from './types.ts';

export const CLUSTERS = ['clusters'];
export const GROUPS_KEY = ['groups'];
export const QUEUE = ['queue'];
export const RULES = ['rules'];
export const RUNNING_KEY = ['running'];
export const OVERVIEW = ['overview'];
const PROBLEMS = ['overview', 'problems'];

/** Function of a query that calls a path. */
export const getter =
  <T>(path: string) =>
  ({ signal }: { readonly signal: AbortSignal }) =>
    call<T>(path, { method: 'GET', signal });

/** Path of an object by its name. */
export const objectPath = (list: string, name: string): string => `${list}/${encodeURIComponent(name)}`;

interface Following {
  /** Longest polling interval, for data that also changes without events. */
  readonly everyMs?: number;
  /** False disables the fetch. */
  readonly isAsked?: boolean;
}

/** Data of a path, kept up to date by a topic of the event stream. */
function useFollowed<T>(topic: TopicName, queryKey: QueryKey, path: string, following: Following = {}) {
  const { everyMs = Number.POSITIVE_INFINITY, isAsked = true } = following;
  const refetchInterval = Math.min(useLive(topic, queryKey), everyMs);
  return useQuery({ queryKey, queryFn: getter<T>(path), enabled: isAsked, refetchInterval });
}

/** Polling interval of clusters on pages that show more than them. */
export const REST_MS = 30_000;

/** All clusters, kept up to date: external changes show within two seconds, counts of queries in twenty unless stated. */
export function useClusters(everyMs = SLOW_MS) {
  return useFollowed<readonly ClusterState[]>('clusters', CLUSTERS, '/api/clusters', { everyMs });
}

export function clusterQuery(name: string) {
  const path = objectPath('/api/clusters', name);
  return queryOptions({ queryKey: [...CLUSTERS, name], queryFn: getter<ClusterDetails>(path) });
}

/** One cluster with all details, kept up to date. */
export function useCluster(name: string) {
  const query = clusterQuery(name);
  return useQuery({ ...query, refetchInterval: Math.min(useLive('clusters', query.queryKey), SLOW_MS) });
}

/** Remaining queries of a cluster; for the roles API and ADMIN. */
export function drainQuery(name: string) {
  const path = `${objectPath('/api/clusters', name)}/drain`;
  return queryOptions({ queryKey: [...CLUSTERS, name, 'drain'], queryFn: getter<Drain>(path) });
}

/** All routing groups with their declarations, kept up to date. */
export function useGroups() {
  return useFollowed<readonly GroupState[]>('groups', GROUPS_KEY, '/api/groups');
}

export function useGroup(name: string) {
  return useFollowed<GroupDetails>('groups', [...GROUPS_KEY, name], objectPath('/api/groups', name));
}

export function useLimits() {
  return useFollowed<readonly LimitState[]>('limits', ['limits'], '/api/limits');
}

/** Default priority. */
export const NO_PRIORITY: typeof DEFAULT_PRIORITY = 2_147_483_647;

/** All rules, kept up to date. @param isAsked false disables the fetch */
export function useRules(isAsked = true) {
  return useFollowed<RuleInventory>('rules', RULES, '/api/rules', { isAsked });
}

/** Number of queries that each rule decided, on all replicas. The gateway counts at most twice a minute. */
export function useRuleHits() {
  return useQuery({ queryKey: ['ruleHits'], queryFn: getter<RuleHitList>('/api/ruleHits'), refetchInterval: 60_000 });
}

/** Queued queries, kept up to date: all for administrators, their own for others. */
export function useQueue() {
  return useFollowed<QueueList>('queue', QUEUE, '/api/queue');
}

export function useOverview() {
  return useFollowed<Overview>('clusters', OVERVIEW, '/api/overview', { everyMs: REST_MS });
}

export function useProblems() {
  useLive('clusters', PROBLEMS);
  useLive('rules', PROBLEMS);
  return useFollowed<ProblemList>('health', PROBLEMS, '/api/overview/problems', { everyMs: SLOW_MS });
}

const SERIES_MS = 25_000;

/** Figures over a range, which the gateway caches for some seconds. */
function useSeries<T>(name: string, minutes: string, parameters = '') {
  return useQuery({
    queryKey: ['overview', name, minutes],
    queryFn: getter<T>(`/api/overview/${name}?minutes=${minutes}${parameters}`),
    refetchInterval: SERIES_MS,
    placeholderData: keepPreviousData,
  });
}

/** Queries by cluster and time. @param lines clusters with a separate line */
export const useQuerySeries = (minutes: string, lines: number) =>
  useSeries<QuerySeries>('queries', minutes, `&lines=${lines}`);

export const useRateSeries = (minutes: string) => useSeries<RateSeries>('rates', minutes);

/** Ranges of figures by parameter of the page's address; milliseconds. */
export const figureRanges = { hour: 3_600_000, day: 86_400_000, week: 7 * 86_400_000 } as const;
export type FigureRange = keyof typeof figureRanges;

const MINUTE_MS = 60_000;
const MAX_FAILURES = 10;

/** Figures and last errors of a cluster's or group's queries that were submitted within a range and have ended. */
export function useFigures(of: RunningFilter, range: FigureRange) {
  return useQuery({
    queryKey: ['figures', of, range],
    queryFn: async (context) => {
      // Ranges begin at whole minutes.
      const from = String(Math.floor((Date.now() - figureRanges[range]) / MINUTE_MS) * MINUTE_MS);
      const by = of.cluster === undefined ? 'routingGroup' : 'cluster';
      const statistics = new URLSearchParams({ by, from, limit: '1', ...of });
      const failures = new URLSearchParams({ state: 'FAILED,LOST,REFUSED', from, limit: String(MAX_FAILURES), ...of });
      const [figures, failed] = await Promise.all([
        getter<Statistics>(`/api/statistics?${statistics}`)(context),
        getter<QueryPage>(`/api/queries?${failures}`)(context),
      ]);
      return { figures: figures.values[0] ?? null, failures: failed.queries, keptHours: figures.keptHours };
    },
    refetchInterval: MINUTE_MS,
  });
}

/**
 * A list that is fetched page by page, newest first.
 * @param path parameters without the page
 */
export function useEarlier<Page extends { readonly next: string | null }>(
  queryKey: QueryKey,
  path: string,
  parameters: URLSearchParams,
) {
  return useInfiniteQuery({
    queryKey,
    queryFn: ({ signal, pageParam }) => {
      const withPage = new URLSearchParams(parameters);
      if (pageParam !== null) withPage.set('after', pageParam);
      return getter<Page>(`${path}?${withPage}`)({ signal });
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    placeholderData: keepPreviousData,
    // A list with several pages stays unchanged while the user reads it.
    refetchInterval: ({ state: { data } }) => ((data?.pages.length ?? 1) > 1 ? false : SLOW_MS),
  });
}

/** Digests with most of a figure. @param parameters of `GET /api/digests` */
export function useDigests(parameters: URLSearchParams) {
  const path = `/api/digests?${parameters}`;
  return useQuery({ queryKey: [path], queryFn: getter<DigestList>(path), refetchInterval: MINUTE_MS });
}

export const QUARANTINE = ['/api/quarantine'];

/** Statements that routing groups reject, as they lost several clusters. */
export function useQuarantine() {
  return useQuery({
    queryKey: QUARANTINE,
    queryFn: getter<QuarantineList>('/api/quarantine'),
    refetchInterval: MINUTE_MS,
  });
}

export const HELD = ['/api/heldDeletions'];

/** Resources that their source lost and that are routed until an administrator confirms the loss. */
export function useHeldDeletions() {
  return useQuery({
    queryKey: HELD,
    queryFn: getter<HeldDeletionList>('/api/heldDeletions'),
    refetchInterval: ALL_MS,
  });
}

/** Predicted and actual classes of queries. @param parameters of `GET /api/estimates` */
export function useCalibration(parameters: URLSearchParams) {
  const path = `/api/estimates?${parameters}`;
  return useQuery({ queryKey: [path], queryFn: getter<Calibration>(path), refetchInterval: MINUTE_MS });
}

export function useDigest(digest: string, parameters: URLSearchParams) {
  const path = `${objectPath('/api/digests', digest)}?${parameters}`;
  return useQuery({ queryKey: [path], queryFn: getter<DigestDetails>(path), refetchInterval: MINUTE_MS });
}

export const REPLAYS = ['replays'];

/** Path of a replay. */
export const replayPath = ({ namespace, name }: Pick<ReplayState, 'namespace' | 'name'>): string =>
  objectPath(objectPath('/api/replays', namespace), name);

/** All replays, polled more often while one runs. */
export function useReplays() {
  return useQuery({
    queryKey: REPLAYS,
    queryFn: getter<readonly ReplayState[]>('/api/replays'),
    refetchInterval: ({ state: { data = [] } }) => (data.some(isActive) ? RUNNING_MS : SLOW_MS),
  });
}

/** One replay, with its report for administrators. @param hasReport true fetches the report */
export function useReplay(of: Pick<ReplayState, 'namespace' | 'name'>, hasReport: boolean) {
  const path = replayPath(of);
  return useQuery({
    queryKey: [...REPLAYS, path, hasReport],
    queryFn: async (context) =>
      hasReport
        ? await getter<QueryReplayReport>(`${path}/report`)(context)
        : { replay: await getter<ReplayState>(path)(context), digests: null },
    refetchInterval: ({ state: { data } }) => (data !== undefined && isActive(data.replay) ? RUNNING_MS : SLOW_MS),
  });
}

const isActive = ({ progress, resource }: ReplayState): boolean => progress?.verified == null && !resource.suspended;

/** One change of the audit; fetched if it is not in the list. @param id may be empty */
export function useAuditedChange(id: string, isKnown: boolean) {
  return useQuery({
    queryKey: ['audit', 'change', id],
    queryFn: async (context) =>
      (await getter<AuditPage>(`/api/audit?id=${encodeURIComponent(id)}`)(context)).changes[0] ?? null,
    enabled: id !== '' && !isKnown,
  });
}

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
        getter<readonly DeclaredGroups[]>(`/api/resourcegroups/declared${place}`)({ signal }),
      ]);
      return { groups, selectors, properties, declared };
    },
    refetchInterval: SLOW_MS,
  });
}

/** Filter of running queries; by default all. */
export interface RunningFilter {
  readonly cluster?: string;
  readonly routingGroup?: string;
  readonly user?: string;
}

/** Polling interval of all running queries, and of losses. */
const ALL_MS = 10_000;

/**
 * Running queries: all for administrators, their own for others.
 * @param interval polling interval in milliseconds; default: twenty seconds, or ten for all queries
 */
export function useRunning(of: RunningFilter = {}, interval?: number, enabled = true) {
  const parameters = new URLSearchParams({ ...of }).toString();
  return useQuery({
    queryKey: [...RUNNING_KEY, parameters],
    queryFn: getter<RunningQueryList>(`/api/queries/running${parameters === '' ? '' : `?${parameters}`}`),
    refetchInterval: interval ?? (parameters === '' ? ALL_MS : SLOW_MS),
    enabled,
  });
}

/**
 * Finds a query among the running queries.
 * @param query null: it is known not to run
 * @returns the query; null if it does not run; undefined if unknown
 */
export function useRunningQuery(query: WholeQuery | null): RunningQuery | null | undefined {
  const of = query === null ? {} : { cluster: query.cluster, ...(query.user === null ? {} : { user: query.user }) };
  const { data } = useRunning(of, SLOW_MS, query !== null);
  if (query === null) return null;
  const running = data?.queries.find(({ queryId }) => queryId === query.queryId);
  return running ?? (data?.complete === true ? null : undefined);
}

/** Polling interval of a query that may still run, and of one that has run for a while. */
const RUNNING_MS = 5_000;
const LONG_RUN_MS = 10_000;
/** Maximum age at which a query without an outcome is polled. */
const MAX_RUN_MS = 24 * 3_600_000;

export function wholeQuery(queryId: string) {
  return queryOptions({
    queryKey: ['query', queryId],
    queryFn: getter<WholeQuery>(objectPath('/api/queries', queryId)),
  });
}

/** A query by its id or its id in the queue; polled until it has ended. */
export function useWholeQuery(queryId: string) {
  return useQuery({
    ...wholeQuery(queryId),
    refetchInterval: ({ state: { data } }) => {
      if (data === undefined) return RUNNING_MS;
      const age = Date.now() - Date.parse(data.created);
      if (data.outcome !== null || age > MAX_RUN_MS) return false;
      return age > MINUTE_MS ? LONG_RUN_MS : RUNNING_MS;
    },
  });
}

/** True if the gateway assigned the id while the query was queued. */
export function isGatewayId(queryId: string): boolean {
  return queryId.endsWith('_queue');
}
