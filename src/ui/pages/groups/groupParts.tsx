import { Badge, Stack, Text } from '@mantine/core';
import type { RoutingGroupSpec } from '../../../kinds/routingGroup/spec.ts';
import type { GroupDetails, GroupState, LimitState } from '../../client/types.ts';
import classes from '../../components/components.module.css';
import { Faint } from '../../components/elements.tsx';
import { AuditLink } from '../../components/ownership.tsx';

interface DeclarationProps {
  readonly kind: string;
  readonly listedAs: string;
  readonly state: Pick<LimitState, 'inForce' | 'message' | 'resource'>;
  /** True if it only counts what it would reject. */
  readonly observes?: boolean;
}

export function DeclaringResource({ kind, listedAs, state, observes = false }: DeclarationProps) {
  const { inForce, message, resource } = state;
  const { namespace, name, place, managers, suspended, conditions } = resource;
  const problems = conditions.filter(
    ({ type, status }) => (type === 'ResolvedRefs' || type === 'Accepted') && status === 'False',
  );
  const isAccepted = !problems.some(({ type }) => type === 'Accepted');
  const [color, label] = look(inForce, isAccepted, suspended, observes);
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

function look(inForce: boolean, isAccepted: boolean, suspended: boolean, observes: boolean): readonly [string, string] {
  if (suspended) return ['gray', 'suspended'];
  if (!inForce) return ['red', isAccepted ? 'not in force' : 'not accepted'];
  if (!isAccepted) return ['yellow', 'earlier version in force'];
  return observes ? ['blue', 'observes'] : ['green', 'in force'];
}

/** The resource that declares a group, or `none`. */
export function GroupDeclaration({ group, none }: { readonly group: GroupState; readonly none: string }) {
  const { resource } = group;
  if (resource === null) return <Text size="sm">{none}</Text>;
  return <DeclaringResource kind="RoutingGroup" listedAs={group.name} state={{ ...group, resource }} />;
}

/** A count; a dash if unknown. */
export function counted(count: number | null): string {
  return count === null ? '–' : String(count);
}

/** A count with its limit: `3 of 10`, `3`, or `– of 10`. */
export function ofLimit(count: number | null, limit: number | undefined): string {
  return limit === undefined ? counted(count) : `${counted(count)} of ${limit}`;
}

/** Returns true if a declaration breaks its schema: its fields may be of any type (sources other than Kubernetes store it). */
export function isInvalid({ resource }: Pick<GroupState, 'resource'>): boolean {
  return resource?.conditions.some(({ type, reason }) => type === 'Accepted' && reason === 'InvalidSpec') ?? false;
}

/** Declared fields of a group; empty without a valid resource. */
export function specOf(group: Pick<GroupState, 'spec' | 'resource'>): RoutingGroupSpec {
  return (isInvalid(group) ? {} : (group.spec ?? {})) as RoutingGroupSpec;
}

/** Capacity, limits and queue of a group, as names and texts. */
export function groupFacts(group: GroupDetails): readonly (readonly [name: string, value: string | undefined])[] {
  const { clusters, running, waiting, refused, isDefault } = group;
  const { strategy, maxRunningQueries, fallbacks, whenFull, bestEffort, queue = {} } = specOf(group);
  const eligible = clusters.filter(({ takesNewQueries }) => takesNewQueries);
  return [
    ['Takes new queries', `${eligible.length} of ${clusters.length} ${clusters.length === 1 ? 'backend' : 'backends'}`],
    ['Running', ofLimit(running, maxRunningQueries)],
    ['Room of its backends', capacityText(eligible.map((cluster) => cluster.maxRunningQueries))],
    ['Waiting', ofLimit(waiting, queue.maxQueuedQueries)],
    ['Refused so far by its limit', refused === null ? '–' : refused.toLocaleString('en')],
    ['Longest wait', queue.maxWait ?? '10m, the default'],
    ['Turns by', queue.fairBy ?? 'User, the default'],
    ['Strategy', strategyText(strategy)],
    ['Best effort', bestEffort === true ? 'an unhealthy backend is tried rather than none' : undefined],
    [
      'Fallbacks serve',
      fallbacks !== undefined && whenFull === 'Fallback' ? 'also while none of its backends has room' : undefined,
    ],
    ['Default group', isDefault ? 'queries that nothing else decides on go here' : undefined],
  ];
}

function strategyText(strategy: RoutingGroupSpec['strategy']): string | undefined {
  if (strategy?.affinity === undefined) return strategy?.type;
  const { type, name } = strategy.affinity;
  return `${strategy.type} by ${name === undefined ? type : `${type} ${name}`}`;
}

/** Text for the total number of concurrent queries of backends. @param limits per backend; null: unlimited */
function capacityText(limits: readonly (number | null)[]): string {
  if (limits.length === 0) return 'none';
  const limited = limits.filter((limit) => limit !== null);
  if (limited.length < limits.length) return 'no limit of the gateway';
  return limited.reduce((sum, limit) => sum + limit, 0).toLocaleString('en');
}
