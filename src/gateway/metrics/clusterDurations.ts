import { Histogram, type Registry } from 'prom-client';
import type { RoutingTable } from '../../routing/routingTable.ts';

/** Maximum number of clusters, and of routing groups of further clusters, with separate durations. */
const MAX_CLUSTERS = 200;
const MAX_GROUPS = 100;

type Label = 'cluster' | 'routing_group' | 'kind';

interface Series {
  readonly routingGroup: string;
  readonly labels: { readonly cluster: string; readonly routing_group: string };
  readonly submission: Histogram.Internal<Label>;
  readonly followUp: Histogram.Internal<Label>;
}

/**
 * Times of submissions and follow-ups by cluster and routing group. A registry may have thousands of clusters, and each
 * series costs Prometheus memory: the first 200 clusters have separate series, further ones share those of their group
 * (`cluster` is empty), and those of groups after the first 100 share one. Removed clusters free their series.
 */
export class ClusterDurations {
  readonly #table: { readonly current: RoutingTable };
  readonly #histogram: Histogram<Label>;
  readonly #series = new Map<string, Series>();
  readonly #shared = new Map<string, Series>();

  constructor(registry: Registry, table: { readonly current: RoutingTable }) {
    this.#table = table;
    this.#histogram = new Histogram({
      name: 'engine_gateway_cluster_request_duration_seconds',
      help: 'Time from the head of a submission or follow-up (kind) to the end of its answer by its cluster, in seconds. The first 200 clusters have series of their own; cluster is empty for further ones, and so is routing_group after 100 groups of these.',
      labelNames: ['cluster', 'routing_group', 'kind'],
      buckets: [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
      registers: [registry],
      collect: () => this.#forgetLeft(),
    });
  }

  /** @param cluster registry name of the responding cluster; clusters outside of the routing table are not counted */
  observe(cluster: string, kind: 'submission' | 'follow_up', seconds: number): void {
    const entry = this.#table.current.clusters.get(cluster);
    if (entry === undefined) return;
    let series = this.#series.get(cluster);
    if (series?.routingGroup !== entry.routingGroup) {
      if (series !== undefined) this.#forget(cluster, series);
      series =
        this.#series.size < MAX_CLUSTERS
          ? this.#ownSeries(cluster, entry.routingGroup)
          : this.#sharedSeries(entry.routingGroup);
    }
    (kind === 'submission' ? series.submission : series.followUp).observe(seconds);
  }

  #ownSeries(cluster: string, routingGroup: string): Series {
    const series = this.#seriesOf(cluster, routingGroup);
    this.#series.set(cluster, series);
    return series;
  }

  #sharedSeries(routingGroup: string): Series {
    const group = this.#shared.has(routingGroup) || this.#shared.size < MAX_GROUPS ? routingGroup : '';
    let series = this.#shared.get(group);
    if (series === undefined) {
      series = this.#seriesOf('', group);
      this.#shared.set(group, series);
    }
    return series;
  }

  #seriesOf(cluster: string, routingGroup: string): Series {
    const labels = { cluster, routing_group: routingGroup };
    return {
      routingGroup,
      labels,
      submission: this.#histogram.labels({ ...labels, kind: 'submission' }),
      followUp: this.#histogram.labels({ ...labels, kind: 'follow_up' }),
    };
  }

  #forgetLeft(): void {
    const { clusters } = this.#table.current;
    for (const [cluster, series] of this.#series) {
      if (clusters.get(cluster)?.routingGroup !== series.routingGroup) this.#forget(cluster, series);
    }
  }

  #forget(cluster: string, { labels }: Series): void {
    this.#series.delete(cluster);
    for (const kind of ['submission', 'follow_up']) this.#histogram.remove({ ...labels, kind });
  }
}
