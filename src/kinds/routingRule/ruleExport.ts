import type { Exportable, ExportedResource, ExportedRule } from '../exported.ts';
import { DEFAULT_PRIORITY } from './spec.ts';

/**
 * Rules of a rules file as RoutingRules. A rules file asks rules of equal priority in its order, resources in order of their
 * names: where that differs, an earlier rule's priority is lowered just as far as keeps the order.
 */
export function* exportedRules({ rules }: Exportable): Generator<ExportedResource> {
  const priorities = orderedPriorities(rules);
  for (const rule of rules) {
    const priority = priorities.get(rule) ?? DEFAULT_PRIORITY;
    yield {
      registryName: rule.name,
      spec: {
        ...(rule.description === undefined || rule.description === '' ? {} : { description: rule.description }),
        ...(priority === DEFAULT_PRIORITY ? {} : { priority }),
        condition: rule.condition,
        actions: rule.actions,
      },
    };
  }
}

/** Priorities with which resources are asked in the order in which the file's rules are. */
function orderedPriorities(rules: readonly ExportedRule[]): ReadonlyMap<ExportedRule, number> {
  const priorityOf = (rule: ExportedRule): number => rule.priority ?? DEFAULT_PRIORITY;
  const lastFirst = rules.toSorted((a, b) => priorityOf(a) - priorityOf(b)).toReversed();
  const priorities = new Map<ExportedRule, number>();
  let next: { readonly rule: ExportedRule; readonly priority: number } | null = null;
  for (const rule of lastFirst) {
    let priority = priorityOf(rule);
    if (next !== null && priority >= next.priority) {
      priority = rule.name < next.rule.name ? next.priority : next.priority - 1;
    }
    priorities.set(rule, priority);
    next = { rule, priority };
  }
  return priorities;
}
