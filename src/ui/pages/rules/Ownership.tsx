import { Text } from '@mantine/core';
import type { RuleState } from '../../client/types.ts';
import { ManagedElsewhere } from '../../components/ManagedElsewhere.tsx';
import { managersText } from '../../components/managers.ts';
import classes from './rules.module.css';

/** Short text for the manager of a rule: the rules file, REST, a manifest, or the managers of its resource. */
export function ruleOwner({ origin, place, managers }: Pick<RuleState, 'origin' | 'place' | 'managers'>): string {
  if (origin === 'file') return 'rules file';
  if (managers.length > 0) return managersText(managers);
  return place.startsWith('eg_resources:') ? 'REST' : 'manifest';
}

/** Destination and owner of a rule's edits, shown before an edit. @param rule null: a new one */
export function Ownership({ rule }: { readonly rule: RuleState | null }) {
  if (rule === null) {
    return (
      <Text size="sm" c="dimmed">
        Written to a new resource
      </Text>
    );
  }
  return (
    <>
      <Text size="sm" c="dimmed" className={classes.place ?? ''}>
        Written to {rule.place}
      </Text>
      <ManagedElsewhere managers={rule.managers} />
    </>
  );
}
