import { Alert, Text } from '@mantine/core';
import { IconGitBranch } from '@tabler/icons-react';
import { type Managers, otherManagers } from './managers.ts';
import classes from './states.module.css';

/** Shows other owners of the resource's fields before an edit; nothing if they are missing. */
export function ManagedElsewhere({ managers }: { readonly managers: Managers }) {
  const foreign = otherManagers(managers);
  if (foreign.length === 0) return null;
  return (
    <Alert role="note" color="blue" icon={<IconGitBranch aria-hidden />} title="Managed elsewhere">
      {foreign.map(({ manager, fields }) => (
        <Text size="sm" key={manager} className={classes.breaking ?? ''}>
          {manager} owns {fields.join(', ')}
        </Text>
      ))}
      <Text size="sm">
        Change these there: what is saved here takes them over only when asked to, and the owner may set them again.
      </Text>
    </Alert>
  );
}
