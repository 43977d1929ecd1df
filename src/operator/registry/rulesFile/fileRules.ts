import { ROUTING_RULE } from '../../../kinds/routingRule/spec.ts';
import type { ResourceKey } from '../../../model/resource.ts';
import { parseRulesFileInTurns } from '../../../rules/compile/rulesFile.ts';
import type { RulesFile } from '../../../rules/ruleCompiler.ts';
import { fieldsOf } from './ruleDocument.ts';

/** A rule of the rules file, with a key as resources have one: its namespace is empty. */
export interface FileRule {
  readonly key: ResourceKey;
  readonly fields: ReturnType<typeof fieldsOf>;
}

export function fileRuleKey(name: string): ResourceKey {
  return { kind: ROUTING_RULE, namespace: '', name };
}

/** The rules of a rules file in its order; null if it cannot be read, so that nothing is known of its rules. */
export async function fileRules(file: RulesFile): Promise<readonly FileRule[] | null> {
  const { documents, problems } = await parseRulesFileInTurns(file);
  if (problems.some(({ effect }) => effect === 'fileNotLoaded')) return null;
  return documents.map(({ rule }) => ({ key: fileRuleKey(rule.name), fields: fieldsOf(rule) }));
}
