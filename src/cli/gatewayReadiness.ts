import type { ComponentState, Readiness } from '../api/probes.ts';
import type { ExternalRulesClient } from '../gateway/external/externalRules.ts';
import { routingReadinessOf } from '../gateway/health/routingReadiness.ts';
import type { Leadership } from '../operator/leadership/leadership.ts';
import type { HeldDeletions } from '../operator/reconcile/deletionGuard.ts';
import type { ResourceSource } from '../operator/sources/source.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { HistoryWriter, Store } from '../store/store.ts';
import type { GatewayContext } from './gateway/context.ts';
import type { Control } from './gateway/control.ts';
import type { Storage } from './gateway/storage.ts';

/** Time limit of the database check of `/readyz?verbose`. */
const PING_TIMEOUT_MS = 1_000;

type ExternalRules = Pick<ExternalRulesClient, 'openReason'>;

/** @param externalRules null: not configured */
export function gatewayReadiness(
  { clock, stopping }: GatewayContext,
  { store, history }: Storage,
  { table, operator: { source, leadership, controller } }: Control,
  externalRules: ExternalRules | null,
): Readiness {
  const isLoaded = () => controller.isLoaded;
  const ready = routingReadinessOf(table, clock, isLoaded);
  return {
    notReadyBecause() {
      if (stopping()) return 'the gateway is stopping';
      const state = ready();
      if (state.ready) return null;
      return !isLoaded() || state.unchecked.length === 0
        ? 'neither the resource source nor the database has been read yet'
        : `not checked yet: ${state.unchecked.join(', ')}`;
    },
    components: async () => [
      await databaseState(store),
      sourceState(source),
      ...heldState(controller.heldDeletions),
      leaderState(leadership),
      historyState(history),
      ...externalRulesState(externalRules),
      ...unmanagedState(table),
    ],
  };
}

async function databaseState(store: Store): Promise<ComponentState> {
  const name = 'database';
  try {
    await store.ping(PING_TIMEOUT_MS);
    return { name, ok: true, message: `${store.dialect} answers` };
  } catch (error) {
    return { name, ok: false, message: error instanceof Error ? error.message : String(error) };
  }
}

function sourceState(source: ResourceSource): ComponentState {
  const { available, reason } = source.state();
  const problems = source.problems().map((problem) => {
    const place = problem.line === null ? problem.place : `${problem.place}:${problem.line}`;
    return `${place}: ${problem.message}`;
  });
  const name = 'resource source';
  if (!available) return { name, ok: false, message: `${source.name} is unavailable: ${reason ?? 'no reason known'}` };
  if (problems.length > 0) return { name, ok: false, message: problems.join('; '), hasMistakes: true };
  return { name, ok: true, message: `${source.name} is followed` };
}

function heldState(losses: readonly HeldDeletions[]): readonly ComponentState[] {
  if (losses.length === 0) return [];
  const perKind = losses.map(({ kind, held, left }) => `${held} of ${held + left} ${kind}`);
  const message = `lost at once and still routed: ${perKind.join(', ')}; confirm with POST /api/heldDeletions/confirm`;
  return [{ name: 'held deletions', ok: false, message }];
}

function leaderState(leadership: Leadership): ComponentState {
  const message = leadership.isLeader ? 'this replica is the leader' : 'another replica is the leader, or none yet';
  return { name: 'leader', ok: true, message };
}

/** Rows of Trino Gateway (docs/resources.md#a-gateway-that-ran-before): routed like any other, and marked here. */
function unmanagedState(table: RoutingTableHolder): readonly ComponentState[] {
  const rows = [...table.current.clusters.values()].filter((cluster) => cluster.origin === 'row');
  if (rows.length === 0) return [];
  const names = rows.map((cluster) => cluster.name).join(', ');
  const message = `${names}: rows of the database without a resource; "engine-gateway export" prints them as manifests`;
  return [{ name: 'unmanaged clusters', ok: true, message }];
}

function externalRulesState(service: ExternalRules | null): readonly ComponentState[] {
  if (service === null) return [];
  const reason = service.openReason;
  const name = 'external rules service';
  if (reason === null) return [{ name, ok: true, message: 'it is called for each new query' }];
  return [{ name, ok: false, message: `left alone for a while, header and default group decide: ${reason}` }];
}

function historyState(history: HistoryWriter): ComponentState {
  const { memory, spilled } = history.depth();
  const message = `${memory} queries wait in memory, ${spilled} on disk`;
  return { name: 'history buffer', ok: spilled === 0, message };
}
