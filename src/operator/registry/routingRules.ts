import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { routingRule } from '../../kinds/routingRule/kind.ts';
import { ROUTING_RULE, type RoutingRuleSpec } from '../../kinds/routingRule/spec.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyOf, keyTextOf, type Resource, registryNameOf } from '../../model/resource.ts';
import { plainRule } from '../../rules/compile/definition.ts';
import { draftProblems, placedText, type RuleDraft } from '../../rules/compile/ruleDraft.ts';
import { parseRulesFile } from '../../rules/compile/rulesFile.ts';
import { changeManifestFile } from '../sources/directory/manifestFiles.ts';
import { digestOfState } from '../sources/source.ts';
import type { RegistryDeletion } from './clusterRegistry.ts';
import { ChangeCount, mustBeGranted, specVersion, type WriteContext } from './resourceWrites.ts';
import {
  engineOf,
  type InventoryRule,
  type RoutingRulesOptions,
  type RuleInventory,
  resourceFields,
  ruleInventory,
  ruleNamed,
} from './ruleInventory.ts';
import {
  fieldsOf,
  fileRuleKey,
  fileRules,
  type RuleFields,
  RulesFileWatch,
  removeRule,
  replaceRule,
} from './rulesFile/rulesFileWatch.ts';

/** A rule as it is listed: the fields of a rules file, where it lives, and what only resources have. */
export interface ListedRule extends Omit<RuleFields, 'priority'> {
  readonly priority: number;
  readonly origin: 'file' | 'resource';
  /** `namespace/name` of its resource. */
  readonly resource?: string;
  readonly routeTo?: RoutingRuleSpec['routeTo'];
  readonly deny?: RoutingRuleSpec['deny'];
  readonly whenUnavailable?: RoutingRuleSpec['whenUnavailable'];
  readonly stop?: boolean;
  readonly suspend?: boolean;
  /** Reason that its present version is not active, if any. */
  readonly problem?: string;
}

/** A rule as a caller wants it. What only resources have stays as it is where it is absent; null takes it out. */
export interface RuleChange
  extends RuleFields,
    Pick<RuleDraft, 'routeTo' | 'deny' | 'whenUnavailable' | 'stop' | 'suspend'> {
  /** Of the rule that the caller has seen (`InventoryRule.version`); absent: whatever it states now is replaced. */
  readonly version?: string;
}

/** A write of a rule; without a resource when it was in a file. */
export type RuleWrite = RegistryDeletion;

/** Rules as REST lists and replaces them, wherever they live (docs/rules.md#changing-rules-by-rest). */
export class RoutingRules {
  readonly #options: RoutingRulesOptions;
  readonly #versions = new ChangeCount();

  constructor(options: RoutingRulesOptions) {
    this.#options = options;
  }

  /** Rules of the file in its order, then those of resources by name; null while an external service decides. */
  list(): readonly ListedRule[] | null {
    const { rulesType, rulesEngineEnabled, file, writes } = this.#options;
    if (rulesType === 'EXTERNAL' && rulesEngineEnabled !== false) return null;
    const ofFile = file === null ? [] : parseRulesFile(file.current).documents.map(({ rule }) => rule);
    const ofResources = [...writes.source.list(ROUTING_RULE)].sort((a, b) =>
      registryNameOf(a) < registryNameOf(b) ? -1 : 1,
    );
    return [
      ...ofFile.map((rule): ListedRule => ({ ...fieldsOf(rule), priority: rule.priority, origin: 'file' })),
      ...ofResources.map((resource) => this.#listedRule(resource)),
    ];
  }

  #listedRule(resource: Resource): ListedRule {
    const { name, description, priority, condition, actions } = resourceFields(resource);
    const report = this.#options.writes.controller.compiledRules?.reports.get(keyTextOf(resource));
    const { namespace, name: resourceName } = resource.metadata;
    const fields = { name, description, priority, condition, actions, origin: 'resource' as const };
    return {
      ...fields,
      resource: `${namespace}/${resourceName}`,
      // Only what resources have; all else keeps its place.
      ...{ ...(resource.spec as Partial<RoutingRuleSpec>), ...fields },
      ...(report === undefined || report.accepted ? {} : { problem: report.message }),
    };
  }

  /** Every rule in firing order, with what became of it. */
  inventory(): Promise<RuleInventory> {
    return ruleInventory(this.#options);
  }

  /** Grows whenever `inventory` may respond something else, apart from what each rule hit. */
  inventoryVersion(): number {
    const { writes, file, defaultRoutingGroup } = this.#options;
    const { controller, table } = writes;
    const { clusters, admission } = table.current;
    const parts: unknown[] = [writes.source.changeCount(ROUTING_RULE), controller.compiledRules, file?.current ?? null];
    parts.push(engineOf(this.#options), admission, defaultRoutingGroup);
    for (const { name, routingGroup } of clusters.values()) parts.push(name, routingGroup);
    return this.#versions.of(parts);
  }

  /** Routing groups that actions of rules active name by a literal; by `origin/name`. */
  groupsNamed(): ReadonlyMap<string, readonly string[]> {
    return this.#options.writes.controller.compiledRules?.namedGroups ?? new Map();
  }

  /** The rule of a name as `inventory` lists it, or null. */
  byName(name: string): InventoryRule | null {
    return ruleNamed(this.#options, name);
  }

  /**
   * Replaces the rule of that name where it lives; it is active when this resolves.
   * @throws GatewayError EG_NOT_FOUND (no such rule), EG_MALFORMED (it does not compile), EG_CONFLICT (an external
   * service decides, or two rules have the name), EG_READ_ONLY, EG_API_WRITES_DISABLED, EG_FIELD_OWNED, EG_IMPOSSIBLE
   */
  async update(rule: RuleChange, { force }: Pick<WriteContext, 'force'>): Promise<RuleWrite> {
    this.#mayWrite('changed');
    this.#mustCompile(rule);
    this.#mustBeUnchanged(rule);
    const home = this.#homeOf(rule.name);
    if (home instanceof RulesFileWatch) {
      mustFitFile(rule);
      const { name, description, priority, condition, actions } = rule;
      const fields = { name, description, priority, condition, actions };
      return await this.#changeFile(home, name, (text) => replaceRule(home.current, text, fields));
    }
    let isRepeated = false;
    const edit = ({ spec }: Resource): Resource['spec'] => {
      // Another change came in between.
      if (isRepeated) this.#mustBeUnchanged(rule);
      isRepeated = true;
      mustNotReplaceTarget(spec, rule);
      return ruleSpec(spec, rule);
    };
    return await this.#options.writes.change(routingRule, keyOf(home), edit, force);
  }

  /**
   * Creates the resource of a rule; it is active when this resolves.
   * @throws GatewayError EG_CONFLICT (a rule of that name exists, or an external service decides), EG_MALFORMED,
   * EG_READ_ONLY, EG_API_WRITES_DISABLED, EG_IMPOSSIBLE, EG_SOURCE_UNAVAILABLE
   */
  async create(rule: RuleChange, { namespace }: Pick<WriteContext, 'namespace'>): Promise<RuleWrite> {
    this.#mayWrite('created');
    this.#mustCompile(rule);
    const { writes } = this.#options;
    writes.controller.refreshNow();
    if (this.byName(rule.name) !== null) {
      throw new GatewayError('EG_CONFLICT', `a rule named ${rule.name} already exists`, { field: 'name' });
    }
    const key = writes.newKey(ROUTING_RULE, rule.name, namespace);
    const { tenancy } = writes.controller;
    mustBeGranted(tenancy.nameRejection(key.namespace, rule.name) ?? tenancy.decidesRejection(key.namespace));
    const spec = { ...(rule.name === key.name ? {} : { name: rule.name }), ...ruleSpec({}, rule) };
    return await writes.settle(await writes.source.create({ ...key, spec }));
  }

  /**
   * Deletes the rule of a name where it lives: its resource, or its document of the rules file.
   * @param version of the rule that the caller has seen; undefined: any
   * @throws GatewayError EG_NOT_FOUND, EG_CONFLICT (another version, two rules of the name, an external service decides),
   * EG_READ_ONLY, EG_API_WRITES_DISABLED, EG_IMPOSSIBLE, EG_SOURCE_UNAVAILABLE
   */
  async delete(name: string, version: string | undefined): Promise<RuleWrite> {
    this.#mayWrite('deleted');
    this.#mustBeUnchanged({ name, version });
    const home = this.#homeOf(name);
    if (home instanceof RulesFileWatch) {
      return await this.#changeFile(home, name, (text) => removeRule(home.current, text, name));
    }
    const expected = version === undefined ? undefined : specVersion(home);
    return await this.#options.writes.delete(routingRule, keyOf(home), expected);
  }

  #mayWrite(what: string): void {
    this.#options.writes.mayWrite(`rules cannot be ${what}`);
    if (this.#options.rulesType !== 'EXTERNAL') return;
    throw new GatewayError('EG_CONFLICT', 'routingRules.rulesType is EXTERNAL: an external service computes the rules');
  }

  /** Resource of a rule by name, or the rules file. @throws GatewayError EG_NOT_FOUND, or EG_CONFLICT if it has two */
  #homeOf(name: string): Resource | RulesFileWatch {
    const { file, writes } = this.#options;
    const { tenancy } = writes.controller;
    const resources = writes.source
      .list(ROUTING_RULE)
      .filter((each) => registryNameOf(each) === name && tenancy.nameRejectionOf(each) === null);
    const documents = file === null ? [] : parseRulesFile(file.current).documents;
    const inFile = documents.some((document) => document.rule.name === name) ? file : null;
    const [resource] = resources;
    if (resources.length > 1 || (resource !== undefined && inFile !== null)) {
      const who = inFile === null ? `${resources.length} resources` : 'both the rules file and a resource';
      const message = `${who} have a rule named ${name}; give them different names`;
      throw new GatewayError('EG_CONFLICT', message, { field: 'name' });
    }
    const home = resource ?? inFile;
    if (home === null) throw new GatewayError('EG_NOT_FOUND', `there is no rule named ${name}`, { field: 'name' });
    return home;
  }

  #mustCompile(rule: RuleChange): void {
    const problems = draftProblems(rule, this.#options.context);
    const [first] = problems;
    if (first !== undefined)
      throw new GatewayError('EG_MALFORMED', placedText(problems), { field: first.field, problems });
  }

  /** Rejects to overwrite what the caller has not seen. */
  #mustBeUnchanged({ name, version }: { readonly name: string; readonly version?: string | undefined }): void {
    if (version === undefined) return;
    const present = this.byName(name);
    if (present === null || present.version === version) return;
    const message = `the rule ${name} was changed meanwhile; look at it again`;
    throw new GatewayError('EG_CONFLICT', message, { field: 'version' });
  }

  /** @param change makes the new text; null: it has no rule of that name */
  async #changeFile(
    file: RulesFileWatch,
    name: string,
    change: (text: string) => Promise<string | null>,
  ): Promise<RuleWrite> {
    const { path } = file.current;
    await changeManifestFile(dirname(path), path, async (present) => {
      const after = present === null ? null : await change(present);
      if (after === null)
        throw new GatewayError('EG_NOT_FOUND', `there is no rule named ${name} any more`, { field: 'name' });
      return after;
    });
    await file.refresh();
    await nextTurn();
    this.#options.writes.controller.refreshNow();
    await nextTurn();
    const rules = await fileRules(file.current);
    const fields = rules?.find(({ key }) => key.name === name)?.fields;
    const digest = digestOfState(fields ?? ['']);
    return { pending: false, resource: { ...fileRuleKey(name), uid: '', resourceVersion: '', digest } };
  }
}

/**
 * Rejects what the form of a rules file has no place for (docs/rules.md#changing-rules-by-rest).
 * @throws GatewayError EG_IMPOSSIBLE
 */
function mustFitFile(rule: RuleChange): void {
  for (const field of ['routeTo', 'deny', 'whenUnavailable', 'stop', 'suspend'] as const) {
    if (rule[field] === undefined || rule[field] === plainRule[field]) continue;
    const message = `the rule ${rule.name} is in the rules file, which has no ${field}; only resources have it`;
    throw new GatewayError('EG_IMPOSSIBLE', message, { field });
  }
}

/** Rejects actions for a rule with a declared target. @throws GatewayError EG_IMPOSSIBLE */
function mustNotReplaceTarget(spec: Resource['spec'], { name, routeTo, deny }: RuleChange): void {
  if (routeTo !== undefined || deny !== undefined || (spec.routeTo === undefined && spec.deny === undefined)) return;
  const target = spec.deny === undefined ? 'routeTo' : 'deny';
  const message = `the rule ${name} has ${target} in place of actions; change its resource`;
  throw new GatewayError('EG_IMPOSSIBLE', message, { field: 'actions' });
}

/** The spec of a rule after a change; what has its default and is not written yet is left out. */
function ruleSpec(present: Resource['spec'], rule: RuleChange): Resource['spec'] {
  const { description, priority, condition, actions, routeTo, deny } = rule;
  const spec: Record<string, unknown> = {
    ...present,
    description: description === '' ? present.description && '' : description,
    priority: priority ?? undefined,
    condition,
    actions: actions.length === 0 ? undefined : [...actions],
    routeTo: routeTo === undefined ? present.routeTo : (routeTo ?? undefined),
    deny: deny === undefined ? present.deny : (deny ?? undefined),
  };
  for (const field of ['whenUnavailable', 'stop', 'suspend'] as const) {
    const isDefault = spec[field] === undefined && rule[field] === plainRule[field];
    if (rule[field] !== undefined && !isDefault) spec[field] = rule[field];
  }
  return Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== undefined));
}
