import { createHash } from 'node:crypto';
import type { RuleDefinition } from './definition.ts';

/** Bytes of a version: two rules that differ have the same one in 300 million million cases. */
const BYTES = 6;
const MODULUS = 2 ** (8 * BYTES);

/** A number that stands for what a rule says: the same for the same rule, on every replica. */
export function ruleVersion(definition: RuleDefinition): number {
  const { name, origin, namespace, priority, condition, actions, routeTo, deny, onUnavailable, stop } = definition;
  const texts = [condition.text, ...actions.map(({ text }) => text)];
  const route = [routeTo?.routingGroup, routeTo?.cluster, deny?.message, deny?.onError, onUnavailable, stop];
  const content = JSON.stringify([name, origin, namespace, priority, texts, route]);
  return createHash('sha256').update(content).digest().readUIntBE(0, BYTES);
}

/** The version of rules that are asked together; their order follows from what they say. */
export function versionOf(rules: readonly { readonly version: number }[]): string {
  let sum = 0;
  for (const { version } of rules) sum = (sum + version) % MODULUS;
  return sum.toString(16).padStart(2 * BYTES, '0');
}
