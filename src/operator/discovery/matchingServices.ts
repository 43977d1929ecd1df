import type { EngineClusterDiscoverySpec, ServiceSelector } from '../../kinds/engineClusterDiscovery/spec.ts';
import type { State } from '../../kinds/outcome.ts';
import { ALL_NAMESPACES, type KnownService, type ServiceList, type ServiceLists } from '../../kinds/serviceLookup.ts';
import { type LabelSelector, matchesLabels } from '../../model/labelSelector.ts';

export interface MatchingServices {
  readonly services: readonly KnownService[];
  readonly isRead: (namespace: string) => boolean;
  readonly isInScope: (namespace: string) => boolean;
  readonly references: State;
}

export interface DiscoveryScope {
  readonly spec: EngineClusterDiscoverySpec;
  /** Namespace of the discovery: its own Services it may always look at. */
  readonly namespace: string;
  /** `resources.discovery.namespaces`; `*` stands for all. */
  readonly allowed: readonly string[];
}

/**
 * Selects Services, in the namespaces that the configuration allows and no others (docs/discovery.md#namespaces).
 * Namespaces are followed from the first time on that a discovery names them.
 */
export function matchingServices(lists: ServiceLists, { spec, namespace, allowed }: DiscoveryScope): MatchingServices {
  const mayAll = allowed.includes(ALL_NAMESPACES);
  const wanted = spec.namespaces ?? [namespace];
  const wantsAll = wanted.includes(ALL_NAMESPACES);
  const named = new Set(wanted.filter((each) => each !== ALL_NAMESPACES));
  if (wantsAll) for (const each of [namespace, ...allowed]) if (each !== ALL_NAMESPACES) named.add(each);
  const permitted = [...named].filter((each) => mayAll || each === namespace || allowed.includes(each));
  const refused = [...named].filter((each) => !permitted.includes(each));
  const isInScope = wantsAll && mayAll ? () => true : (each: string) => permitted.includes(each);
  // One list for all where that is allowed: the number of namespaces is other people's.
  const followed = mayAll ? [ALL_NAMESPACES] : permitted;
  const read = followed.map((each) => ({ namespace: each, list: lists.list(each) }));
  const selector = labelSelectorOf(spec.selector);
  const services = read.flatMap(({ list }) =>
    list.services.filter(({ labels, namespace: own }) => matchesLabels(selector, labels) && isInScope(own)),
  );
  const synced = new Set(read.filter(({ list }) => list.synced).map((each) => each.namespace));
  return {
    services,
    isInScope,
    isRead: (each) => isInScope(each) && (synced.has(ALL_NAMESPACES) || synced.has(each)),
    references: referencesOf(refused, read),
  };
}

const operators = { In: 'in', NotIn: 'notIn', Exists: 'exists', DoesNotExist: 'doesNotExist' } as const;

/** Selector of a valid spec, with all of its requirements. */
function labelSelectorOf({ matchLabels = {}, matchExpressions = [] }: ServiceSelector): LabelSelector {
  return {
    requirements: [
      ...Object.entries(matchLabels).map(([key, value]) => ({ key, operator: 'in' as const, values: [value] })),
      ...matchExpressions.map(({ key, operator, values = [] }) => ({ key, operator: operators[operator], values })),
    ],
  };
}

function referencesOf(
  refused: readonly string[],
  read: readonly { readonly namespace: string; readonly list: ServiceList }[],
): State {
  if (refused.length > 0) {
    const message = `the Services of ${refused.slice(0, 5).join(', ')} may not be looked at; have the namespace added to resources.discovery.namespaces of the gateway's configuration, or take it out of spec.namespaces`;
    return { status: 'False', reason: 'NamespaceNotAllowed', message };
  }
  const failing = read.find(({ list }) => list.reason !== null && list.reason !== NOT_LISTED);
  if (failing !== undefined) {
    const where = failing.namespace === ALL_NAMESPACES ? 'all namespaces' : failing.namespace;
    const message = `the Services of ${where} cannot be read: ${failing.list.reason}`;
    return { status: 'False', reason: 'ServicesUnavailable', message };
  }
  const pending = read.filter(({ list }) => !list.synced).map(({ namespace }) => namespace);
  if (pending.length > 0) {
    return { status: 'Unknown', reason: 'Pending', message: `the Services of ${pending.join(', ')} are being read` };
  }
  return { status: 'True', reason: 'ResolvedRefs', message: 'the Services of its namespaces are followed' };
}

const NOT_LISTED = 'not listed yet';
