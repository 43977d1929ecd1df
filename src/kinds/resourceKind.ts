import type { Static, TSchema } from 'typebox';
import { type CelRule, groupWithoutEdgeSpaces, rulesOf } from '../model/cel.ts';
import type { ClusterAddresses } from '../model/clusterAddresses.ts';
import type { Problem } from '../model/errors.ts';
import type { GroupsFile } from '../model/groupsFile/storedGroups.ts';
import { isRecord } from '../model/record.ts';
import type { ConditionDraft, Kind, Resource } from '../model/resource.ts';
import { compileCheck } from '../model/validation.ts';
import { noCounts } from '../routing/admissionCounts.ts';
import type { AdmissionPolicy } from '../routing/admissionPolicy.ts';
import { emptyTable, type RoutableCluster } from '../routing/routingTable.ts';
import type { TextPlace } from '../rules/compile/definition.ts';
import type { CompileContext } from '../rules/language/scope.ts';
import type { CompiledRules, RuleCompiler, RulesFile } from '../rules/ruleCompiler.ts';
import type { Tenancy } from '../rules/tenancy.ts';
import type { BackendRow } from '../store/store.ts';
import { Findings, type ResourceOutcome, type State, type StatusDraft, type StatusView } from './outcome.ts';
import type { ServiceLookup } from './serviceLookup.ts';

/** Inputs of outcomes in addition to the resources. */
export interface ProgramSettings {
  /** Compiler of rules, and the rules file as last read; null: none is configured. */
  readonly rules: { readonly compiler: RuleCompiler; readonly file: { readonly current: RulesFile | null } | null };
  readonly services: ServiceLookup;
  readonly allowedServiceNamespaces: readonly string[];
  readonly defaultRoutingGroup: string;
  /** Addresses that clusters may have. */
  readonly addresses: ClusterAddresses;
  /** Absent: every namespace is the platform's, also with tenants. */
  readonly platform?: Platform | undefined;
  /** Results of discoveries; absent without Kubernetes. */
  readonly discoveries?: DiscoveryReports | undefined;
  /** Name of the gateway's own database on its server; left out, it is not known. */
  readonly ownDatabase?: string | null;
}

/** Namespace of the platform, which operates the gateway (docs/resources.md#tenants). */
export interface Platform {
  readonly namespace: string;
  /** True if resources of several namespaces are read, so that others need a tenant. */
  readonly areSeveral: boolean;
}

/** The routing table while the kinds build it one after the other: each may read what those before it added. */
export interface RoutingDraft {
  /** Rows of Trino Gateway, which no resource has adopted. */
  readonly rows: readonly BackendRow[];
  /** All resources. */
  readonly resources: ReadonlyMap<Kind, readonly Resource[]>;
  tenancy: Tenancy;
  clusters: readonly RoutableCluster[];
  admission: AdmissionPolicy;
  /** Null until a kind has compiled them. */
  rules: CompiledRules | null;
}

/** Works out what the resources of a kind mean, and remembers what it needs for that. Synchronous and without I/O. */
export interface KindProgram {
  /**
   * Takes over what was active before a restart, for resources that are not valid or are suspended now.
   * @param resources the database's copy of the kind's resources
   * @param rows every row of `gateway_backend`
   */
  restore(resources: readonly Resource[], rows: readonly BackendRow[]): void;
  /**
   * Works the outcomes out and adds to the draft what they mean for routing. Outcomes that did not change stay the same
   * objects where that is known cheaply: there may be thousands.
   * @param resources all of the kind
   * @returns by `keyText`
   */
  refresh(resources: readonly Resource[], draft: RoutingDraft): ReadonlyMap<string, ResourceOutcome>;
}

/** Result of a discovery's last scan at its replica. */
export interface DiscoveryReport {
  /** Fields of the status. */
  readonly counts: Readonly<Record<'services' | 'clusters' | 'conflicts', number>>;
  /** Condition `ResolvedRefs`: its namespaces may be looked at, and their Services can be read. */
  readonly references: State;
  readonly discovered: State;
}

export interface DiscoveryReports {
  /** Null: it has not been looked at yet. @param uid of the discovery */
  report(uid: string): DiscoveryReport | null;
}

/** A column of `kubectl get` (CustomResourceColumnDefinition). */
export interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'boolean' | 'date';
  readonly jsonPath: string;
  readonly description: string;
  /** 0: always shown; 1: with `-o wide`. */
  readonly priority?: number;
}

/** @param path below the object, such as `spec.active` */
export const column = (
  name: string,
  type: PrinterColumn['type'],
  path: string,
  description: string,
  priority = 0,
): PrinterColumn => ({ name, type, jsonPath: `.${path}`, description, ...(priority === 0 ? {} : { priority }) });

export const conditionColumn = (type: string, description: string, priority = 0): PrinterColumn =>
  column(type, 'string', `status.conditions[?(@.type=="${type}")].status`, description, priority);

/** Columns of counts of queries (`countProperties`). */
export const countColumns: readonly PrinterColumn[] = [
  column('Running', 'integer', 'status.runningQueries', 'Queries that run.'),
  column('Queued', 'integer', 'status.queuedQueries', 'Queries that wait.'),
  column('Rejected', 'integer', 'status.rejectedQueries', 'Queries rejected.', 1),
];

/**
 * Compiles a check of specs: mistakes against the schema or, as the API server does it, against the rules of a spec of the schema.
 * @param others finds in a spec of the schema what neither describes
 */
export function specCheck<S extends TSchema>(
  schema: S,
  others: (spec: Static<S>, name?: string) => Iterable<Problem> = () => [],
): (spec: unknown, name?: string) => readonly Problem[] {
  const check = compileCheck(schema, 'spec');
  return (spec, name) => {
    const checked = check(spec);
    if (!checked.ok) return checked.problems;
    return [...ruleProblems(schema, spec, 'spec'), ...others(checked.value, name)];
  };
}

/** A schema as far as rules are found in it. */
interface RuledSchema {
  readonly 'x-kubernetes-validations'?: object;
  readonly items?: RuledSchema;
  readonly properties?: Readonly<Record<string, RuledSchema>>;
}

/** Finds the mistakes that the rules of a schema describe, in a value of that schema. @param path of the value */
function* ruleProblems(schema: RuledSchema, value: unknown, path: string): Generator<Problem> {
  const { 'x-kubernetes-validations': validations = {}, items, properties = {} } = schema;
  for (const [, message, mistake, begin = ''] of rulesOf.get(validations) ?? []) {
    const below = (typeof mistake === 'function' ? mistake(value as never) : notOne(value, mistake)) ?? null;
    if (below === null) continue;
    const field = below === '' ? path : `${path}.${below}`;
    // The subject of a message of the API server is the field, which is named here already.
    const subject = message.slice(0, message.indexOf(' '));
    const isNamed = field.replace(/\[\d+\]$/, '').endsWith(`.${subject}`);
    const isMissing = isRecord(value) && value[below.replace(/\..*/, '')] === undefined;
    if (begin !== '') yield { field, message: (isMissing ? 'is missing: ' : begin) + message };
    else yield { field, message: isNamed ? message.slice(subject.length + 1) : message };
  }
  if (Array.isArray(value) && items !== undefined)
    for (const [index, each] of value.entries()) yield* ruleProblems(items, each, `${path}[${index}]`);
  if (!isRecord(value)) return;
  for (const [name, inner] of Object.entries(value))
    yield* ruleProblems(properties[name] ?? {}, inner, `${path}.${name}`);
}

/** Field that is missing, or too much, if exactly one of several has to be set. */
function notOne(value: unknown, fields: readonly string[] = []): string | undefined {
  const present = fields.filter((field) => isRecord(value) && value[field] !== undefined);
  return present.length === 1 ? undefined : (present[1] ?? fields[0]);
}

/** Actions of the gateway on resources of a kind, and so its required rights (Kubernetes RBAC). */
export interface OwnAccess {
  readonly verbs: readonly ('get' | 'list' | 'watch' | 'create' | 'patch' | 'delete')[];
  /** One sentence for readers of the Role. */
  readonly why: string;
}

/** Access to resources that REST calls write as well. */
export const writeAccess = (why: string): OwnAccess => ({
  verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
  why,
});

/** How a kind gives rows of `gateway_backend` (docs/decisions/0005-guarded-projection.md). */
export interface KindRows<Outcome extends ResourceOutcome = ResourceOutcome> {
  /** The row of an outcome; null for none. */
  ofOutcome(outcome: Outcome): BackendRow | null;
  /**
   * The row that a resource gives when it is looked at alone, for a write whose transaction stores both. What others have
   * to do with it (a name that is claimed twice) is not known here.
   * @returns null if the resource is suspended or not valid, so that its row stays as it is
   */
  ofResource(resource: Resource): BackendRow | null;
}

/**
 * A kind of resources: all that the gateway knows of it (docs/architecture.md#kinds-of-resources). What works on any kind
 * asks the registry for these, so that a kind is added by its folder and a line of `registry.ts`.
 */
export interface ResourceKind<Outcome extends ResourceOutcome = ResourceOutcome> {
  /** Its name, as in `kind:` of a manifest. */
  readonly kind: Kind;
  /** Lower-case plural, as in paths of the API server and in RBAC. */
  readonly plural: string;
  readonly singular: string;
  readonly shortName: string;
  readonly description: string;
  /** Schema of `spec`, with what the API server checks by CEL. */
  readonly spec: TSchema;
  /** CEL rules of the API server for the whole object: `self.metadata.name` and `self.spec`. */
  readonly objectRules: readonly CelRule[];
  /** Schemas of what its status has beside `observedGeneration` and `conditions`. */
  readonly statusProperties: Readonly<Record<string, object>>;
  /** Columns of `kubectl get`, before the age. */
  readonly columns: readonly PrinterColumn[];
  /** Paths that `kubectl get --field-selector` takes. */
  readonly selectableFields: readonly string[];
  /** A spec that is valid, for pages and tests. */
  readonly example: Readonly<Record<string, unknown>>;
  readonly ownAccess: OwnAccess;
  /** Gauge of how many there are, without the product's prefix. */
  readonly gauge: { readonly name: string; readonly help: string };
  /**
   * Mistakes in a spec: all that the CRD's schema and its CEL rules say, for sources that have no API server in front
   * of them. Empty if it is fine.
   */
  specProblems(spec: unknown): readonly Problem[];
  /** Additional findings of `engine-gateway validate`. */
  findings(manifest: CheckedManifest): readonly ManifestFinding[];
  /** Converts objects of Trino Gateway to resources of the kind (`engine-gateway export`). */
  exported(input: Exportable): Iterable<ExportedResource>;
  /** Makes what works out outcomes; one an operator. */
  program(settings: ProgramSettings): KindProgram;
  /** Last step of a reconcile: what to say about a resource. Pure. */
  status(outcome: Outcome, view: StatusView): StatusDraft;
  /** Annotations that have no effect any more and are to be removed. */
  endedAnnotations(outcome: Outcome): readonly string[];
  /** Rows of `gateway_backend` that resources of the kind give; null: none. */
  readonly rows: KindRows<Outcome> | null;
  /**
   * True if the API server counts as unavailable while it does not have the CRD. One that came in a later version may
   * be missing: the program is upgraded, the CRDs are not (docs/upgrades.md#skew).
   */
  readonly isRequired: boolean;
  /** True if a registry name is one resource's alone, in all namespaces; the others are not accepted (`claimNames`). */
  readonly hasUniqueNames: boolean;
  /** True if its resources have no namespace; theirs is an empty text here. */
  readonly isClusterScoped: boolean;
  /** True if its status shows counts (`StatusView.counts`), which change by themselves. */
  readonly hasCounts: boolean;
  /** True if its program adds to the routing table without resources as well: rows, the rules file, rights. */
  readonly worksWithoutResources: boolean;
}

/** Properties of a kind without specialities. */
export const plainKind = {
  objectRules: [],
  // Trino Gateway has none.
  exported: () => [],
  endedAnnotations: () => [],
  rows: null,
  isRequired: false,
  hasUniqueNames: false,
  isClusterScoped: false,
  hasCounts: false,
  worksWithoutResources: false,
} as const;

/** A rule as a rules file has it (docs/rules.md#fields). */
export interface ExportedRule {
  readonly name: string;
  readonly description?: string;
  readonly priority?: number;
  readonly condition: string;
  readonly actions: readonly string[];
}

/** What a gateway that ran before has without resources. */
export interface Exportable {
  /** Rows of `gateway_backend`. */
  readonly clusters: readonly BackendRow[];
  /** Rules of a rules file, in its order. */
  readonly rules: readonly ExportedRule[];
  /** Resource groups by environment; left out, there are none. */
  readonly resourceGroups?: readonly {
    readonly environment: string;
    /** Where they are, as `useSchema` names it; null: the gateway's own. */
    readonly database: string | null;
    readonly file: GroupsFile;
  }[];
}

/** What becomes a resource. */
export interface ExportedResource {
  readonly registryName: string;
  /** Its spec but for `name`, which is set where the registry name is no name of a resource. */
  readonly spec: Readonly<Record<string, unknown>>;
}

/** A manifest that `engine-gateway validate` checks. */
export interface CheckedManifest {
  /** `metadata.name` */
  readonly name: string;
  readonly spec: Readonly<Record<string, unknown>>;
  /** What rules are compiled for. */
  readonly context: CompileContext;
  /** Where the content of a text begins in the file; null when it is not there. */
  textPlace(path: readonly (string | number)[]): TextPlace | null;
}

/** A finding in a manifest beyond the mistakes of its spec. */
export interface ManifestFinding {
  /** `problem`: it cannot work; `warning`: it may be intended. */
  readonly severity: 'problem' | 'warning';
  readonly message: string;
  /** A field such as `spec.proxyTo`, or a place in the file. */
  readonly at: string | { readonly line: number; readonly column: number };
}

/** The reason that a resource is not accepted until a user changes it, as its status has it (condition `Stalled`). */
export function rejectionBy(kind: ResourceKind, outcome: ResourceOutcome): ConditionDraft | undefined {
  const view = {
    ...{ stored: { stored: true, reason: '' }, table: emptyTable, findings: new Findings() },
    counts: noCounts,
  };
  return kind.status(outcome, view).conditions.find(({ type }) => type === 'Stalled');
}

/** The registered kinds. Code that works on any kind takes a registry. */
export class KindRegistry {
  /** In the order in which they are worked out: a kind may look at what those before it mean. */
  readonly all: readonly ResourceKind[];
  readonly names: readonly Kind[];
  readonly #byName: ReadonlyMap<Kind, ResourceKind>;

  /** @throws TypeError when two have a name in common */
  constructor(all: readonly ResourceKind[]) {
    this.all = all;
    this.names = all.map(({ kind }) => kind);
    this.#byName = new Map(all.map((kind) => [kind.kind, kind]));
    const names = new Set(all.flatMap(({ kind, plural, shortName }) => [kind, plural, shortName]));
    if (names.size !== all.length * 3) throw new TypeError('two kinds have a kind, plural or shortName in common');
  }

  /** The kind of a name, or null. */
  find(kind: string): ResourceKind | null {
    return this.#byName.get(kind) ?? null;
  }

  /**
   * The kind of a name that a registered resource has.
   * @throws TypeError when it is missing
   */
  of(kind: Kind): ResourceKind {
    const entry = this.#byName.get(kind);
    if (entry === undefined) throw new TypeError(`no kind ${kind} is registered`);
    return entry;
  }

  /**
   * Mistakes in the spec of a resource; see `ResourceKind.specProblems`.
   * @throws TypeError when the kind is not registered
   */
  specProblems(kind: Kind, spec: unknown): readonly Problem[] {
    return this.of(kind).specProblems(spec);
  }
}

/** Findings about the name of a routing group. @param field such as `spec.routingGroup` */
export function groupFindings(group: unknown, field: string): ManifestFinding[] {
  if (typeof group !== 'string' || !/\s/.test(group)) return [];
  const name = field.split('.').at(-1) ?? field;
  if (group !== group.trim()) {
    const [, problem] = groupWithoutEdgeSpaces(name);
    return [{ severity: 'problem', message: `${field}: ${problem}`, at: field }];
  }
  const message = `${field}: ${JSON.stringify(group)} holds a space; write the name as rules and headers do, best with - in its place`;
  return [{ severity: 'warning', message, at: field }];
}
