import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ProductNames } from '../../model/names.ts';
import type { RoutingRules, RuleChange } from '../../operator/registry/routingRules.ts';
import { recordChange } from '../auth/audit.ts';
import { reportPending, type WriteFamily, writeContext } from './writeFamily.ts';

/** Routing rules as a family of REST calls changes them, each change in the audit (docs/rest-api.md#routing-rules). */
export class AuditedRules<Rule extends object> {
  readonly #rules: Pick<RoutingRules, 'update'>;
  readonly #ruleNamed: (name: string) => Rule | null;
  readonly #names: ProductNames;
  readonly #family: WriteFamily;

  /** @param ruleNamed a rule in the form that the family lists; null: there is none of that name */
  constructor(
    rules: Pick<RoutingRules, 'update'>,
    ruleNamed: (name: string) => Rule | null,
    names: ProductNames,
    family: WriteFamily,
  ) {
    this.#rules = rules;
    this.#ruleNamed = ruleNamed;
    this.#names = names;
    this.#family = family;
  }

  /** Replaces the rule of that name. Returns it as it is listed now; null: it was deleted meanwhile. */
  async update(request: FastifyRequest, reply: FastifyReply, change: RuleChange): Promise<Rule | null> {
    const { name } = change;
    const before = this.#ruleNamed(name);
    const { pending, resource } = await this.#rules.update(change, writeContext(request, this.#family));
    const after = this.#ruleNamed(name);
    const object = `routing rule ${name}`;
    recordChange(request, { object, regarding: resource ?? 'gateway', before, after: after ?? change });
    if (pending) reportPending(reply, this.#family, this.#names);
    return after;
  }
}
