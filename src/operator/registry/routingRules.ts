import { dirname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { ruleTargets } from '../../kinds/routingRule/ruleOutcome.ts';
import { DEFAULT_PRIORITY, ROUTING_RULE, type RoutingRuleSpec } from '../../kinds/routingRule/spec.ts';
import { ChangeCount } from '../../model/changeCount.ts';
import { GatewayError } from '../../model/errors.ts';
import { keyOf, keyText, type Resource } from '../../model/resource.ts';
import { registryNameOf } from '../../model/resourceName.ts';
import { plainRule } from '../../rules/compile/definition.ts';
import { draftProblems, placedText, type RuleDraft } from '../../rules/compile/ruleDraft.ts';
import { parseRulesFile } from '../../rules/compile/rulesFile.ts';
import type { CompileContext } from '../../rules/language/scope.ts';
import { changeManifestFile } from '../sources/directory/manifestWriter.ts';
import { VersionConflict } from '../sources/source.ts';
import type { RegistryDeletion } from './clusterRegistry.ts';
import type { ResourceWrites, WriteContext } from './resourceWrites.ts';
import {
  type InventoryRule,
  type RuleInventory,
  type RuleInventoryOptions,
  ruleInventory,
  ruleNamed,
} from './ruleInventory.ts';
import { fieldsOf, type RuleFields, removeRule, replaceRule } from './rulesFile/ruleDocument.ts';
import type { RulesFileWatch } from './rulesFile/rulesFileWatch.ts';

/** A rule as it is listed: the fields of a rules file, where it lives, and what only resources have. */
export interface ListedRule extends Omit<RuleFields, 'priority'> {
  readonly priority: number;
  readonly origin: 'file' | 'resource';
  /** `namespace/name` of its resource. */
  readonly resource?: string;
  readonly routeTo?: RoutingRuleSpec['routeTo'];
  readonly deny?: RoutingRuleSpec['deny'];
  readonly onUnavailable?: RoutingRuleSpec['onUnavailable'];
  readonly stop?: boolean;
  readonly suspended?: boolean;
  /** Reason that its present version is not active, if any. */
  readonly problem?: string;
}

export interface RoutingRulesOptions {
  readonly writes: ResourceWrites;
  readonly defaultRoutingGroup: string;
  /** Null: no rules file is configured. */
  readonly file: RulesFileWatch | null;
  readonly rulesType: 'FILE' | 'EXTERNAL';
  readonly rulesEngineEnabled: boolean | undefined;
  readonly context: CompileContext;
}

/** A rule as a caller wants it. What only resources have stays as it is where it is absent; null takes it out. */
export interface RuleChange
  extends RuleFields,
    Pick<RuleDraft, 'routeTo' | 'deny' | 'onUnavailable' | 'stop' | 'suspended'> {
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
    const {
      actions,
      description,
      condition,
      priority,
      name: _name,
      ...rest
    } = resource.spec as Partial<RoutingRuleSpec>;
    const report = this.#options.writes.controller.compiledRules?.reports.get(keyText(keyOf(resource)));
    return {
      name: registryNameOf(resource),
      description: description ?? '',
      priority: priority ?? DEFAULT_PRIORITY,
      condition: condition ?? '',
      actions: actions ?? [],
      origin: 'resource',
      resource: `${resource.metadata.namespace}/${resource.metadata.name}`,
      ...rest,
      ...(report === undefined || report.accepted ? {} : { problem: report.message }),
    };
  }

  /** Every rule in firing order, with what became of it. */
  inventory(): Promise<RuleInventory> {
    return ruleInventory(this.#inventoryParts());
  }

  /** Grows whenever `inventory` may respond something else, apart from what each rule hit. */
  inventoryVersion(): number {
    const { writes, file, defaultRoutingGroup } = this.#options;
    const { controller, table } = writes;
    const { clusters, admission } = table.current;
    const parts: unknown[] = [writes.source.changeCount(ROUTING_RULE), controller.compiledRules, file?.current ?? null];
    parts.push(this.#engine, admission, defaultRoutingGroup);
    for (const { name, routingGroup } of clusters.values()) parts.push(name, routingGroup);
    return this.#versions.of(parts);
  }

  /** Routing groups that actions of rules active name by a literal; by `origin/name`. */
  groupsNamed(): ReadonlyMap<string, readonly string[]> {
    return this.#options.writes.controller.compiledRules?.namedGroups ?? new Map();
  }

  get #engine(): RuleInventory['engine'] {
    const { rulesType, rulesEngineEnabled } = this.#options;
    return rulesEngineEnabled === false ? 'off' : rulesType === 'EXTERNAL' ? 'external' : 'on';
  }

  /** The rule of a name as `inventory` lists it, or null. */
  byName(name: string): InventoryRule | null {
    return ruleNamed(this.#inventoryParts(), name);
  }

  #inventoryParts(): RuleInventoryOptions {
    const { file, writes, context } = this.#options;
    const { controller, table } = writes;
    const { clusters, admission } = table.current;
    const targets = ruleTargets([...clusters.values()], admission, this.#options.defaultRoutingGroup);
    return {
      source: writes.source,
      compiled: controller.compiledRules,
      file: file?.current ?? null,
      engine: this.#engine,
      context,
      targets,
    };
  }

  /**
   * Replaces the rule of that name where it lives; it is active when this resolves.
   * @throws GatewayError EG_NOT_FOUND (no such rule), EG_MALFORMED (it does not compile), EG_CONFLICT (an external
   * service decides, or two rules have the name), EG_READ_ONLY, EG_API_WRITES_DISABLED, EG_FIELD_OWNED, EG_IMPOSSIBLE
   */
  async update(rule: RuleChange, context: WriteContext): Promise<RuleWrite> {
    this.#mayWrite('changed');
    this.#mustCompile(rule);
    this.#mustBeUnchanged(rule);
    const home = this.#homeOf(rule.name);
    if (home === 'resource') return await this.#updateResource(rule, context);
    mustFitFile(rule);
    await this.#changeFile(home, rule.name, (text) => replaceRule(home.current, text, ruleFields(rule)));
    return { pending: false, resource: null };
  }

  /**
   * Creates the resource of a rule; it is active when this resolves.
   * @throws GatewayError EG_CONFLICT (a rule of that name exists, or an external service decides), EG_MALFORMED,
   * EG_READ_ONLY, EG_API_WRITES_DISABLED, EG_IMPOSSIBLE, EG_SOURCE_UNAVAILABLE
   */
  async create(rule: RuleChange): Promise<RuleWrite> {
    this.#mayWrite('created');
    this.#mustCompile(rule);
    const { writes } = this.#options;
    writes.controller.refreshNow();
    if (this.byName(rule.name) !== null) {
      throw new GatewayError('EG_CONFLICT', `a rule named ${rule.name} already exists`, { field: 'name' });
    }
    const key = writes.newKey(ROUTING_RULE, rule.name);
    return await this.#settle(await writes.source.create({ ...key, spec: newRuleSpec(rule, key.name) }));
  }

  /**
   * Deletes the rule of a name where it lives: its resource, or its document of the rules file.
   * @param version of the rule that the caller has seen; undefined: any
   * @throws GatewayError EG_NOT_FOUND, EG_CONFLICT (another version, paused, two rules of the name, an external service decides),
   * EG_READ_ONLY, EG_API_WRITES_DISABLED, EG_IMPOSSIBLE, EG_SOURCE_UNAVAILABLE
   */
  async delete(name: string, version: string | undefined): Promise<RuleWrite> {
    this.#mayWrite('deleted');
    this.#mustBeUnchanged({ name, version });
    const home = this.#homeOf(name);
    if (home === 'resource') return await this.#deleteResource(name, version);
    await this.#changeFile(home, name, (text) => removeRule(home.current, text, name));
    return { pending: false, resource: null };
  }

  #mayWrite(what: string): void {
    this.#options.writes.mayWrite(`rules cannot be ${what}`);
    if (this.#options.rulesType !== 'EXTERNAL') return;
    throw new GatewayError('EG_CONFLICT', 'routingRules.rulesType is EXTERNAL: an external service computes the rules');
  }

  /** Source of a rule by name. @throws GatewayError EG_NOT_FOUND, or EG_CONFLICT if it has two */
  #homeOf(name: string): 'resource' | RulesFileWatch {
    const { file } = this.#options;
    const resource = this.#resourceOf(name);
    const documents = file === null ? [] : parseRulesFile(file.current).documents;
    const isInFile = documents.some((document) => document.rule.name === name);
    if (resource !== null && isInFile) {
      throw new GatewayError(
        'EG_CONFLICT',
        `both the rules file and a resource have a rule named ${name}; give them different names`,
        { field: 'name' },
      );
    }
    if (resource !== null) return 'resource';
    if (file !== null && isInFile) return file;
    throw new GatewayError('EG_NOT_FOUND', `there is no rule named ${name}`, { field: 'name' });
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
    if (present !== null && present.version !== version) throw changedMeanwhile(name);
  }

  #resourceOf(name: string): Resource | null {
    const sameName = this.#options.writes.source
      .list(ROUTING_RULE)
      .filter((resource) => registryNameOf(resource) === name);
    if (sameName.length > 1) {
      throw new GatewayError(
        'EG_CONFLICT',
        `${sameName.length} resources have a rule named ${name}; give them different names`,
        { field: 'name' },
      );
    }
    return sameName[0] ?? null;
  }

  /** @param change makes the new text; null: it has no rule of that name */
  async #changeFile(
    file: RulesFileWatch,
    name: string,
    change: (text: string) => Promise<string | null>,
  ): Promise<void> {
    const { path } = file.current;
    await changeManifestFile(dirname(path), path, async (present) => {
      const after = present === null ? null : await change(present);
      if (after === null)
        throw new GatewayError('EG_NOT_FOUND', `there is no rule named ${name} any more`, { field: 'name' });
      return after;
    });
    await file.look();
    await nextTurn();
    this.#options.writes.controller.refreshNow();
    await nextTurn();
  }

  async #updateResource(rule: RuleChange, { force }: WriteContext): Promise<RuleWrite> {
    const { writes } = this.#options;
    let isRepeated = false;
    const changed = await writes.decide(async () => {
      // Another change came in between.
      if (isRepeated) this.#mustBeUnchanged(rule);
      isRepeated = true;
      const resource = this.#mustHave(rule.name);
      return await writes.apply(resource, { ...specChange(resource, rule), annotations: {} }, force);
    });
    return await this.#settle(changed);
  }

  async #deleteResource(name: string, version: string | undefined): Promise<RuleWrite> {
    const { writes } = this.#options;
    const resource = this.#mustHave(name);
    writes.mustNotBePaused(resource);
    try {
      await writes.remove(resource, version !== undefined);
    } catch (error) {
      throw error instanceof VersionConflict ? changedMeanwhile(name, error) : error;
    }
    return await this.#settle(resource);
  }

  #mustHave(name: string): Resource {
    const resource = this.#resourceOf(name);
    if (resource === null) throw new GatewayError('EG_NOT_FOUND', `there is no rule named ${name}`, { field: 'name' });
    return resource;
  }

  /** Has own table and database follow a written or deleted resource. */
  async #settle(resource: Resource): Promise<RuleWrite> {
    await nextTurn();
    this.#options.writes.controller.refreshNow();
    await nextTurn();
    const written = await this.#options.writes.settle(resource);
    // What follows looks through all rules again.
    await nextTurn();
    return written;
  }
}

function changedMeanwhile(name: string, cause?: Error): GatewayError {
  const message = `the rule ${name} was changed meanwhile; look at it again`;
  return new GatewayError('EG_CONFLICT', message, { field: 'version', cause });
}

function ruleFields({ name, description, priority, condition, actions }: RuleChange): RuleFields {
  return { name, description, priority, condition, actions };
}

/**
 * Rejects what the form of a rules file has no place for (docs/rules.md#changing-rules-by-rest).
 * @throws GatewayError EG_IMPOSSIBLE
 */
function mustFitFile(rule: RuleChange): void {
  for (const field of ['routeTo', 'deny', 'onUnavailable', 'stop', 'suspended'] as const) {
    if (rule[field] === undefined || rule[field] === plainRule[field]) continue;
    const message = `the rule ${rule.name} is in the rules file, which has no ${field}; only resources have it`;
    throw new GatewayError('EG_IMPOSSIBLE', message, { field });
  }
}

/** The spec of a new rule: what has its default is left out. @param resourceName name of its resource */
function newRuleSpec(rule: RuleChange, resourceName: string): Readonly<Record<string, unknown>> {
  const { name, description, priority, condition, actions, routeTo = null, deny = null } = rule;
  const spec: Record<string, unknown> = {
    ...(name === resourceName ? {} : { name }),
    ...(description === '' ? {} : { description }),
    ...(priority === null ? {} : { priority }),
    condition,
    ...(actions.length === 0 ? {} : { actions: [...actions] }),
    ...(routeTo === null ? {} : { routeTo }),
    ...(deny === null ? {} : { deny }),
  };
  for (const field of ['onUnavailable', 'stop', 'suspended'] as const) {
    if (rule[field] !== undefined && rule[field] !== plainRule[field]) spec[field] = rule[field];
  }
  return spec;
}

/** Fields of a resource that differ from the rule sent. */
function specChange(
  resource: Resource,
  rule: RuleChange,
): { readonly set: Record<string, unknown>; readonly remove: readonly string[] } {
  const spec = resource.spec as Partial<RoutingRuleSpec>;
  const saysWhere = rule.routeTo !== undefined || rule.deny !== undefined;
  if (!saysWhere && (spec.routeTo !== undefined || spec.deny !== undefined)) {
    throw new GatewayError(
      'EG_IMPOSSIBLE',
      `the rule ${rule.name} has ${spec.deny === undefined ? 'routeTo' : 'deny'} in place of actions; change its resource`,
      { field: 'actions' },
    );
  }
  const desired: Record<string, unknown> = {
    description: rule.description === '' && spec.description === undefined ? undefined : rule.description,
    condition: rule.condition,
    actions: rule.actions.length === 0 ? null : [...rule.actions],
    priority: rule.priority,
    routeTo: rule.routeTo,
    deny: rule.deny,
  };
  for (const field of ['onUnavailable', 'stop', 'suspended'] as const) {
    // An absent field has its default already.
    desired[field] = spec[field] === undefined && rule[field] === plainRule[field] ? undefined : rule[field];
  }
  const changed = Object.entries(desired).filter(
    ([field, value]) => value !== undefined && !isDeepStrictEqual(spec[field as keyof RoutingRuleSpec] ?? null, value),
  );
  return {
    set: Object.fromEntries(changed.filter(([, value]) => value !== null)),
    remove: changed.filter(([, value]) => value === null).map(([field]) => field),
  };
}
