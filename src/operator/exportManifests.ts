import { Document } from 'yaml';
import { DEFAULT_PRIORITY } from '../kinds/routingRule/spec.ts';
import { API_GROUP_VERSION } from '../model/resource.ts';
import { resourceNames } from '../model/resourceName.ts';
import type { BackendRow } from '../store/store.ts';

/** A rule as a rules file has it (docs/rules.md#fields). */
export interface ExportedRule {
  readonly name: string;
  readonly description?: string;
  readonly priority?: number;
  readonly condition: string;
  readonly actions: readonly string[];
}

/** What is exported. */
export interface ExportInput {
  /** Rows of `gateway_backend`. */
  readonly clusters: readonly BackendRow[];
  /** Rules of a rules file, in its order. */
  readonly rules: readonly ExportedRule[];
  /** Written into each manifest; null leaves the choice to `kubectl --namespace`. */
  readonly namespace: string | null;
}

/**
 * Prints clusters and rules of a gateway that ran before as manifests, ready for `kubectl apply` or for a directory.
 * Names that are no Kubernetes names get the metadata.name that a REST write would give them. A rules file
 * asks rules of equal priority in its order, resources in order of their names: where that differs, an earlier rule's
 * priority is lowered just as far as keeps the order.
 */
export function exportManifests(input: ExportInput): string {
  const manifests = [...clusterManifests(input), ...ruleManifests(input)];
  return manifests.map((manifest) => `---\n${new Document(manifest).toString({ lineWidth: 0 })}`).join('');
}

function* clusterManifests({ clusters, namespace }: ExportInput): Generator<object> {
  const taken = new Set<string>();
  for (const cluster of clusters) {
    const name = freeName(cluster.name, taken);
    yield {
      apiVersion: API_GROUP_VERSION,
      kind: 'EngineCluster',
      metadata: { name, ...(namespace === null ? {} : { namespace }) },
      spec: {
        ...(name === cluster.name ? {} : { name: cluster.name }),
        proxyTo: cluster.backendUrl,
        ...(cluster.externalUrl === cluster.backendUrl || cluster.externalUrl === ''
          ? {}
          : { externalUrl: cluster.externalUrl }),
        active: cluster.active,
        routingGroup: cluster.routingGroup,
      },
    };
  }
}

function* ruleManifests({ rules, namespace }: ExportInput): Generator<object> {
  const taken = new Set<string>();
  const priorities = orderedPriorities(rules);
  for (const rule of rules) {
    const priority = priorities.get(rule) ?? DEFAULT_PRIORITY;
    const name = freeName(rule.name, taken);
    yield {
      apiVersion: API_GROUP_VERSION,
      kind: 'RoutingRule',
      metadata: { name, ...(namespace === null ? {} : { namespace }) },
      spec: {
        ...(name === rule.name ? {} : { name: rule.name }),
        ...(rule.description === undefined || rule.description === '' ? {} : { description: rule.description }),
        ...(priority === DEFAULT_PRIORITY ? {} : { priority }),
        condition: rule.condition,
        actions: rule.actions,
      },
    };
  }
}

/** Priorities with which resources are asked in the order in which the file's rules are. */
function orderedPriorities(rules: readonly ExportedRule[]): ReadonlyMap<ExportedRule, number> {
  const priorityOf = (rule: ExportedRule): number => rule.priority ?? DEFAULT_PRIORITY;
  const lastFirst = rules.toSorted((a, b) => priorityOf(a) - priorityOf(b)).toReversed();
  const priorities = new Map<ExportedRule, number>();
  let next: { readonly rule: ExportedRule; readonly priority: number } | null = null;
  for (const rule of lastFirst) {
    let priority = priorityOf(rule);
    if (next !== null && priority >= next.priority) {
      priority = rule.name < next.rule.name ? next.priority : next.priority - 1;
    }
    priorities.set(rule, priority);
    next = { rule, priority };
  }
  return priorities;
}

function freeName(registryName: string, taken: Set<string>): string {
  for (const name of resourceNames(registryName)) {
    if (taken.has(name)) continue;
    taken.add(name);
    return name;
  }
  throw new Error('names never end');
}
