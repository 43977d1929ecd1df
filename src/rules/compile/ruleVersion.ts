import { createHash } from 'node:crypto';
import type { RuleDefinition } from './definition.ts';

/** Bytes of a version: two different rules collide in one of 300 million million cases. */
const BYTES = 6;
const MODULUS = 2 ** (8 * BYTES);

/** Hash of a rule's content, equal on every replica. */
export function ruleVersion(definition: RuleDefinition): number {
  const { name, origin, namespace, stage, priority, condition, actions, routeTo, deny, whenUnavailable } = definition;
  const texts = [condition.text, ...actions.map(({ text }) => text)];
  const route = [routeTo?.routingGroup, routeTo?.cluster, deny?.message, deny?.whenError, whenUnavailable];
  const content = JSON.stringify([name, origin, namespace, priority, texts, route, definition.stop, stage]);
  return createHash('sha256').update(content).digest().readUIntBE(0, BYTES);
}

/** The combined version of rules; their order follows from their content. */
export function versionOf(rules: readonly { readonly version: number }[]): string {
  let sum = 0;
  for (const { version } of rules) {
    sum += version;
    if (sum >= MODULUS) sum -= MODULUS;
  }
  return sum.toString(16).padStart(2 * BYTES, '0');
}
