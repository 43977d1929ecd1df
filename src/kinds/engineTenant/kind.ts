import { isDeepStrictEqual } from 'node:util';
import { type Problem, problemText } from '../../model/errors.ts';
import { matchesLabels, toLabelSelector } from '../../model/labelSelector.ts';
import { isOlder, keyTextOf, type Resource } from '../../model/resource.ts';
import { namesIn, openTenancy, Tenancy, type TenantGrants } from '../../rules/tenancy.ts';
import { matchProblems } from '../../rules/textMatcher.ts';
import { ENGINE_CLUSTER } from '../engineCluster/spec.ts';
import {
  type Acceptance,
  accepted,
  conditionState,
  countField,
  liveOf,
  notAccepted,
  outcomeOf,
  type ResourceOutcome,
  ready,
  statusDraft,
} from '../outcome.ts';
import {
  column,
  type KindProgram,
  type Platform,
  type ProgramSettings,
  plainKind,
  type ResourceKind,
  type RoutingDraft,
  specCheck,
} from '../resourceKind.ts';
import { ROUTING_RULE } from '../routingRule/spec.ts';
import { noServices } from '../serviceLookup.ts';
import { ENGINE_TENANT, ENGINE_TENANTS, EngineTenantSpec, NAMESPACE_PLACEHOLDER } from './spec.ts';

type TenantSettings = Pick<ProgramSettings, 'platform' | 'services'>;
type TenantDraft = Pick<RoutingDraft, 'resources' | 'tenancy'>;

interface TenantOutcome extends ResourceOutcome {
  readonly acceptance: Acceptance;
  /** Namespaces that are its own. */
  readonly namespaces: readonly string[];
  /** Resources in them. */
  readonly counts: Readonly<Record<'clusters' | 'rules', number>>;
}

/** Teams and what they are granted (docs/resources.md#tenants). */
export const engineTenant: ResourceKind<TenantOutcome> = {
  ...plainKind,
  kind: ENGINE_TENANT,
  plural: ENGINE_TENANTS,
  singular: 'enginetenant',
  shortName: 'et',
  description: 'EngineTenant grants routing groups, names and queries to the namespaces of a team.',
  spec: EngineTenantSpec,
  statusProperties: {
    namespaces: countField('Namespaces of the tenant.'),
    clusters: countField('EngineClusters in them.'),
    rules: countField('RoutingRules in them.'),
    selectedNamespaces: {
      type: 'array',
      'x-kubernetes-list-type': 'atomic',
      items: { type: 'string' },
      description: 'Namespaces that the selector selects, for a restart while their labels cannot be read.',
    },
  },
  columns: ['Namespaces', 'Clusters', 'Rules'].map((name) =>
    column(name, 'integer', `status.${name.toLowerCase()}`, `${name} of the tenant.`),
  ),
  selectableFields: ['.spec.gatewayClassName'],
  example: {
    namespaces: { names: ['analytics'] },
    routingGroups: [{ value: 'analytics' }],
    decides: { users: [{ type: 'Prefix', value: 'analytics-' }] },
  },
  ownAccess: { verbs: ['get', 'list', 'watch'], why: 'Tenants are followed; only people write them.' },
  gauge: { name: 'engine_tenants', help: 'EngineTenant resources.' },
  specProblems: (spec) => tenantProblems(spec),
  findings: () => [],
  program: (settings) => new TenantProgram(settings),
  status: (outcome, { stored, findings }) => {
    const { acceptance, namespaces, counts, resource } = outcome;
    const conflict = findings.failure(outcome);
    const isSelected = (resource.spec as Partial<EngineTenantSpec>).namespaces?.selector !== undefined;
    const selected = isSelected ? { selectedNamespaces: namespaces } : {};
    return statusDraft(
      outcome,
      acceptance,
      { namespaces: namespaces.length, ...counts, ...selected },
      {
        Conflicting: conflict === null ? null : conditionState('True', 'SeveralTenants', conflict),
        Ready: ready(acceptance, stored),
      },
    );
  },
  isClusterScoped: true,
  worksWithoutResources: true,
};

/** Rights by the tenants of the database, without the labels of namespaces. */
export function storedTenancy(tenants: readonly Resource[], platform: Platform): Tenancy {
  const draft = { resources: new Map(), tenancy: openTenancy };
  new TenantProgram({ platform, services: noServices }).refresh(tenants, draft);
  return draft.tenancy;
}

/** Works out which namespace belongs to which tenant; before all other kinds, which ask for their grants. */
class TenantProgram implements KindProgram {
  readonly #settings: TenantSettings;
  /** Last valid specs by uid. */
  readonly #lastGood = new Map<string, EngineTenantSpec>();
  #tenancy = openTenancy;

  constructor(settings: TenantSettings) {
    this.#settings = settings;
  }

  restore(resources: readonly Resource[]): void {
    for (const { metadata, spec } of resources)
      if (tenantProblems(spec).length === 0) this.#lastGood.set(metadata.uid, spec as EngineTenantSpec);
  }

  refresh(resources: readonly Resource[], draft: TenantDraft): ReadonlyMap<string, TenantOutcome> {
    const { platform } = this.#settings;
    const live = liveOf(resources).toSorted((a, b) => (isOlder(a, b) ? -1 : 1));
    const isActive = platform !== undefined && (platform.areSeveral || live.length > 0);
    const owners = new Map<string, string>();
    if (platform !== undefined) owners.set(platform.namespace, 'the platform');
    const countOf = live.length === 0 ? () => 0 : counter(draft);
    const tenants: TenantGrants[] = [];
    const outcomes = live.map((resource): [string, TenantOutcome] => {
      const { uid, name } = resource.metadata;
      const base = outcomeOf(resource);
      const problems = tenantProblems(resource.spec);
      if (problems.length === 0) this.#lastGood.set(uid, resource.spec as EngineTenantSpec);
      const spec = base.suspended ? undefined : this.#lastGood.get(uid);
      const { selected, reason } = spec === undefined ? nothing : this.#select(spec, resource);
      const taken = selected.find((each) => owners.has(each));
      const namespaces = selected.filter((each) => !owners.has(each));
      for (const each of namespaces) owners.set(each, `the older ${ENGINE_TENANT} ${name}`);
      if (spec !== undefined) tenants.push({ name, namespaces, spec });
      const acceptance = acceptanceOf(problems, reason, taken, owners, isActive);
      const counts = { clusters: countOf(ENGINE_CLUSTER, namespaces), rules: countOf(ROUTING_RULE, namespaces) };
      return [keyTextOf(resource), { ...base, acceptance, namespaces, counts }];
    });
    const uids = new Set(live.map(({ metadata }) => metadata.uid));
    for (const uid of this.#lastGood.keys()) if (!uids.has(uid)) this.#lastGood.delete(uid);
    const data = isActive ? { platform: platform.namespace, tenants } : openTenancy.data;
    // The same object while nothing changed: others remember what they made with it.
    if (!isDeepStrictEqual(this.#tenancy.data, data)) this.#tenancy = new Tenancy(data);
    draft.tenancy = this.#tenancy;
    return new Map(outcomes);
  }

  /** Namespaces of a spec, and the reason that they are not known. */
  #select({ namespaces: { names, selector } }: EngineTenantSpec, { status }: Resource) {
    if (selector === undefined) return { selected: names ?? [], reason: null };
    const { synced, reason, labels } = this.#settings.services.namespaces();
    const { selectedNamespaces: before = [] } = (status ?? {}) as { readonly selectedNamespaces?: readonly string[] };
    if (!synced) return { selected: before, reason: reason ?? 'the labels of namespaces are being read' };
    const wanted = toLabelSelector(selector);
    return { selected: [...labels].flatMap(([name, of]) => (matchesLabels(wanted, of) ? [name] : [])).sort(), reason };
  }
}

const nothing = { selected: [], reason: null };

function acceptanceOf(
  problems: readonly Problem[],
  reason: string | null,
  taken: string | undefined,
  owners: ReadonlyMap<string, string>,
  isActive: boolean,
): Acceptance {
  if (problems.length > 0) return notAccepted('InvalidSpec', problemText(problems));
  if (taken !== undefined) {
    const message = `spec.namespaces: namespace ${taken} belongs to ${owners.get(taken)}; take it out of one of the two`;
    return notAccepted('NamespaceConflict', message);
  }
  if (reason !== null) {
    const message = `spec.namespaces.selector: ${reason}; the namespaces that were selected before stay`;
    return { ...conditionState('Unknown', 'NamespacesPending', message), final: false };
  }
  return accepted(
    isActive ? 'the tenant is valid' : "the tenant is valid; the gateway reads one namespace, which is the platform's",
  );
}

function counter({ resources }: TenantDraft): (kind: string, namespaces: readonly string[]) => number {
  const counts = new Map(
    [ENGINE_CLUSTER, ROUTING_RULE].map((kind) => {
      const of = Map.groupBy(resources.get(kind) ?? [], ({ metadata }) => metadata.namespace);
      return [kind, of] as const;
    }),
  );
  return (kind, namespaces) => namespaces.reduce((sum, each) => sum + (counts.get(kind)?.get(each)?.length ?? 0), 0);
}

/** Mistakes in the spec of an EngineTenant. */
const tenantProblems = specCheck(EngineTenantSpec, function* ({ names = [], routingGroups, decides, resourceGroups }) {
  yield* matchProblems('spec', { names: namesIn(names, NAMESPACE_PLACEHOLDER.slice(1, -1)), routingGroups });
  yield* matchProblems('spec.decides', decides ?? {});
  yield* matchProblems('spec.resourceGroups', { rootGroups: resourceGroups?.rootGroups });
});
