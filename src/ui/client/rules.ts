import { useQuery } from '@tanstack/react-query';
import type { PlacedProblem } from './apiError.ts';
import { call } from './call.ts';
import { LIVE_MS } from './queryClient.ts';
import type { RuleOutcome } from './types.ts';

/** What a rule says (docs/rest-api.md: Routing rules). */
export interface RuleText {
  readonly name: string;
  readonly description: string;
  /** Null: none, which fires last. */
  readonly priority: number | null;
  readonly condition: string;
  readonly actions: readonly string[];
  readonly routeTo: { readonly routingGroup?: string; readonly cluster?: string } | null;
  readonly deny: { readonly message: string; readonly onError?: 'deny' | 'skip' } | null;
  readonly onUnavailable: 'fallback' | 'reject';
  readonly stop: boolean;
  readonly suspended: boolean;
}

/** A rule as `GET /api/rules` lists it. */
export interface Rule extends RuleText {
  readonly priority: number;
  readonly origin: 'file' | 'resource';
  readonly resource: string | null;
  readonly place: string;
  readonly managers: readonly { readonly manager: string; readonly fields: readonly string[] }[];
  readonly version: string;
  /** When it is asked, from 1; null: it is not. */
  readonly position: number | null;
  readonly status: string;
  readonly message: string;
  readonly problems: readonly PlacedProblem[];
}

/** All rules: `GET /api/rules`. */
export interface RuleInventory {
  readonly engine: 'on' | 'off' | 'external';
  readonly file: {
    readonly path: string;
    readonly state: 'absent' | 'loaded' | 'failed' | 'keptLast';
    readonly problems: readonly {
      readonly line: number;
      readonly column: number;
      readonly rule: string | null;
      readonly message: string;
    }[];
  } | null;
  readonly rules: readonly Rule[];
}

/** What would become of a request: `POST /api/explain`. */
export interface Explanation {
  readonly outcome: 'routed' | 'denied' | 'rejected' | 'noCluster';
  readonly message: string;
  readonly routingGroup: string;
  readonly clusters: readonly {
    readonly cluster: string;
    readonly routingGroup: string;
    readonly taken: boolean;
    readonly reason: string;
  }[];
  readonly rules: readonly RuleOutcome[];
  readonly request: {
    readonly user: string | null;
    readonly query: { readonly queryType: string; readonly tables: readonly string[] } | null;
  };
}

/** Priority of a rule that has none. */
export const NO_PRIORITY = 2_147_483_647;

/** Key of the rules among the queries. */
export const RULES = ['rules'];

/** All rules, kept up to date. */
export function useRules() {
  return useQuery({
    queryKey: RULES,
    queryFn: ({ signal }) => call<RuleInventory>('/api/rules', { method: 'GET', signal }),
    refetchInterval: LIVE_MS,
  });
}
