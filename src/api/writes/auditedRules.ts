import type { FastifyReply, FastifyRequest } from 'fastify';
import { routingRule } from '../../kinds/routingRule/kind.ts';
import type { ProductNames } from '../../model/names.ts';
import type { RoutingRules, RuleChange, RuleWrite } from '../../operator/registry/routingRules.ts';
import { recordChange } from '../auth/audit.ts';
import { reportPending, type WriteFamily, writeContext } from './writeFamily.ts';

/** What changes rules. */
type RuleWrites = Pick<RoutingRules, 'update' | 'create' | 'delete'>;

/** Routing rules as a family of REST calls changes them, each change in the audit (docs/rest-api.md#routing-rules). */
export class AuditedRules<Rule extends object> {
  readonly #rules: RuleWrites;
  readonly #ruleNamed: (name: string) => Rule | null;
  readonly #names: ProductNames;
  readonly #family: WriteFamily;

  /** @param ruleNamed a rule in the form that the family lists; null: there is none of that name */
  constructor(rules: RuleWrites, ruleNamed: (name: string) => Rule | null, names: ProductNames, family: WriteFamily) {
    this.#rules = rules;
    this.#ruleNamed = ruleNamed;
    this.#names = names;
    this.#family = family;
  }

  /** Replaces the rule of that name. Returns it as it is listed now; null: it was deleted meanwhile. */
  async update(request: FastifyRequest, reply: FastifyReply, change: RuleChange): Promise<Rule | null> {
    const { name } = change;
    const write = () => this.#rules.update(change, writeContext(request, this.#family));
    return await this.#write(request, reply, name, write, change);
  }

  /** Creates a rule. Returns it as it is listed now; null: it was deleted meanwhile. */
  async create(request: FastifyRequest, reply: FastifyReply, rule: RuleChange): Promise<Rule | null> {
    return await this.#write(request, reply, rule.name, () => this.#rules.create(rule), rule);
  }

  /** Deletes the rule of a name. @param version that the caller has seen; undefined: any */
  async delete(request: FastifyRequest, reply: FastifyReply, name: string, version: string | undefined): Promise<void> {
    await this.#write(request, reply, name, () => this.#rules.delete(name, version), null);
  }

  /** @param sent what the audit has where nothing is listed after the write */
  async #write(
    request: FastifyRequest,
    reply: FastifyReply,
    name: string,
    write: () => Promise<RuleWrite>,
    sent: RuleChange | null,
  ): Promise<Rule | null> {
    const before = this.#ruleNamed(name);
    const { pending, resource } = await write();
    const after = this.#ruleNamed(name);
    const object = `routing rule ${name}`;
    const subject = { kind: routingRule.kind, name };
    recordChange(request, { object, subject, regarding: resource ?? 'gateway', before, after: after ?? sent });
    if (pending) reportPending(reply, this.#family, this.#names);
    return after;
  }
}
