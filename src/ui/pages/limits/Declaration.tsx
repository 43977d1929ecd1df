import { Badge, Stack, Text } from '@mantine/core';
import type { GroupState, LimitState } from '../../client/types.ts';
import { Faint } from '../../components/elements.tsx';
import { AuditLink } from '../../components/ownership.tsx';
import classes from './limits.module.css';

interface DeclarationProps {
  readonly kind: string;
  readonly listedAs: string;
  readonly state: Pick<LimitState, 'inForce' | 'message' | 'resource'>;
  /** True if it only counts what it would reject. */
  readonly observes?: boolean;
}

export function DeclaringResource({ kind, listedAs, state, observes = false }: DeclarationProps) {
  const { inForce, message, resource } = state;
  const { namespace, name, place, managers, paused, conditions } = resource;
  const problems = conditions.filter(
    ({ type, status }) => (type === 'ResolvedRefs' || type === 'Accepted') && status === 'False',
  );
  const isAccepted = !problems.some(({ type }) => type === 'Accepted');
  const [color, label] = look(inForce, isAccepted, paused, observes);
  return (
    <Stack gap={2} align="flex-start" className={classes.declaration}>
      <Badge variant="light" color={color} className={classes.badge ?? ''}>
        {label}
      </Badge>
      <Text size="sm">
        {kind} {namespace}/{name}
      </Text>
      <Faint>{managers.length > 0 ? `by ${managers.map(({ manager }) => manager).join(', ')}` : place}</Faint>
      {problems.map(({ type, message: text }) => (
        <Text key={type} size="xs" c="red">
          {text}
        </Text>
      ))}
      <AuditLink kind={kind} name={listedAs} namespace={namespace} />
      {problems.length === 0 && !inForce && <Text size="xs">{message}</Text>}
    </Stack>
  );
}

function look(inForce: boolean, isAccepted: boolean, paused: boolean, observes: boolean): readonly [string, string] {
  if (!inForce) return ['red', isAccepted ? 'not in force' : 'not accepted'];
  if (!isAccepted) return ['yellow', 'earlier version in force'];
  if (paused) return ['gray', 'paused'];
  return observes ? ['blue', 'observes'] : ['green', 'in force'];
}

interface GroupDeclarationProps {
  readonly group: GroupState;
  readonly resource: NonNullable<GroupState['resource']>;
}

export function GroupDeclaration({ group, resource }: GroupDeclarationProps) {
  return <DeclaringResource kind="RoutingGroup" listedAs={group.name} state={{ ...group, resource }} />;
}
