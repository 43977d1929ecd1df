import type { LabelSelector } from '../../model/labelSelector.ts';
import type { ServiceSelector } from './spec.ts';

const operators = { In: 'in', NotIn: 'notIn', Exists: 'exists', DoesNotExist: 'doesNotExist' } as const;

/** A selector of a valid spec, with all of its requirements. */
export function labelSelectorOf({ matchLabels = {}, matchExpressions = [] }: ServiceSelector): LabelSelector {
  return {
    requirements: [
      ...Object.entries(matchLabels).map(([key, value]) => ({ key, operator: 'in' as const, values: [value] })),
      ...matchExpressions.map(({ key, operator, values = [] }) => ({ key, operator: operators[operator], values })),
    ],
  };
}
