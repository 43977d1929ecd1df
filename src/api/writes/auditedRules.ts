import type { FastifyReply, FastifyRequest } from 'fastify';
import { routingRule } from '../../kinds/routingRule/kind.ts';
import type { ProductNames } from '../../model/names.ts';
import type { WriteContext } from '../../operator/registry/clusterRegistry.ts';
import type { RoutingRules, RuleChange, RuleWrite } from '../../operator/registry/routingRules.ts';
import { AuditedWrites, type WriteFamily } from './writeFamily.ts';

/** Changes of routing rules by a family of REST calls (docs/rest-api.md#routing-rules). */
export class AuditedRules<Rule extends object> {
  readonly #rules: Pick<RoutingRules, 'update' | 'create' | 'delete'>;
  readonly #ruleNamed: (name: string) => Rule | null;
  readonly #writes: AuditedWrites;

  /** @param ruleNamed returns a rule in the form that the family lists; null: no rule has the name */
  constructor(
    rules: Pick<RoutingRules, 'update' | 'create' | 'delete'>,
    ruleNamed: (name: string) => Rule | null,
    names: ProductNames,
    family: WriteFamily,
  ) {
    this.#rules = rules;
    this.#ruleNamed = ruleNamed;
    this.#writes = new AuditedWrites(names, family);
  }

  /** Replaces the rule of that name. Returns it as it is listed now; null: it was deleted meanwhile. */
  update(request: FastifyRequest, reply: FastifyReply, change: RuleChange): Promise<Rule | null> {
    const write = (context: WriteContext) => this.#rules.update(change, context);
    return this.#write(request, reply, change.name, write, change);
  }

  /** Creates a rule. Returns it as it is listed now; null: it was deleted meanwhile. */
  create(request: FastifyRequest, reply: FastifyReply, rule: RuleChange): Promise<Rule | null> {
    return this.#write(request, reply, rule.name, () => this.#rules.create(rule), rule);
  }

  /** Deletes the rule of a name. @param version that the caller has seen; undefined: any */
  async delete(request: FastifyRequest, reply: FastifyReply, name: string, version: string | undefined): Promise<void> {
    await this.#write(request, reply, name, () => this.#rules.delete(name, version), null);
  }

  /** @param sent state for the audit if the rule is not listed after the write */
  async #write(
    request: FastifyRequest,
    reply: FastifyReply,
    name: string,
    write: (context: WriteContext) => Promise<RuleWrite>,
    sent: RuleChange | null,
  ): Promise<Rule | null> {
    const rule = { object: `routing rule ${name}`, kind: routingRule.kind, name, before: this.#ruleNamed(name) };
    await this.#writes.make(request, reply, rule, write, () => this.#ruleNamed(name) ?? sent);
    return this.#ruleNamed(name);
  }
}
