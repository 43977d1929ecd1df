import { Button, List, Stack, Text } from '@mantine/core';
import { IconGitBranch, IconLock } from '@tabler/icons-react';
import type { API_FIELD_MANAGER } from '../../model/resource.ts';
import { ApiError, messageOf } from '../client/call.ts';
import type { ClusterState } from '../client/types.ts';
import { useSees } from '../session/session.ts';
import classes from './components.module.css';
import { Notice, To } from './elements.tsx';

/** Shows other owners of the resource's fields before an edit; nothing if they are missing. */
export function ManagedElsewhere({ managers }: { readonly managers: Managers }) {
  const others = otherManagers(managers);
  if (others.length === 0) return null;
  return (
    <Notice tone="info" role="note" icon={<IconGitBranch aria-hidden />} title="Managed elsewhere">
      {others.map(({ manager, fields }) => (
        <Text size="sm" key={manager} className={classes.breaking ?? ''}>
          {manager} owns {fields.join(', ')}
        </Text>
      ))}
      <Text size="sm">
        Change these there: what is saved here takes them over only when asked to, and the owner may set them again.
      </Text>
    </Notice>
  );
}

interface WriteFailureProps {
  readonly error: unknown;
  /** True while the change is sent again. */
  readonly busy: boolean;
  readonly onForce: () => void;
}

/** Explains a failed change; offers to take over fields of other managers. */
export function WriteFailure({ error, busy, onForce }: WriteFailureProps) {
  if (!(error instanceof ApiError) || error.code !== 'EG_FIELD_OWNED') {
    return (
      <Notice tone="error" title="Not stored">
        {messageOf(error)}
      </Notice>
    );
  }
  const title = 'Nothing was stored: others own these fields';
  return (
    <Notice tone="error" color="yellow" title={title} icon={<IconLock aria-hidden />}>
      <Stack gap="xs" align="flex-start">
        <List size="sm">
          {error.owners.map(({ field, manager }) => (
            <List.Item key={`${field} ${manager}`}>
              {field}: {manager}
            </List.Item>
          ))}
        </List>
        <Text size="sm">
          Change them there, or take them over: then they are this gateway's, and the other manager may set them again.
        </Text>
        <Button size="xs" color="red.9" onClick={onForce} loading={busy}>
          Take over and save
        </Button>
      </Stack>
    </Notice>
  );
}

interface NotOpenedProps {
  /** Subject of the sentence: what the address names. */
  readonly what: string;
  /** The reason as a sentence; by default: it does not exist. */
  readonly why?: string | undefined;
  readonly onClose: () => void;
}

/** Explains why an object in the page's address does not open, and links to the page without it. */
export function NotOpened({ what, why, onClose }: NotOpenedProps) {
  const title = why === undefined ? `${what} is not there` : `${what} cannot be changed here`;
  return (
    <Notice tone="info" color={why === undefined ? 'yellow' : 'blue'} title={title}>
      <Stack gap="xs" align="flex-start">
        <Text size="sm">
          {why ?? 'It was deleted or renamed since this address was made, or is of another gateway.'}
        </Text>
        <Button size="xs" variant="default" onClick={onClose}>
          Close
        </Button>
      </Stack>
    </Notice>
  );
}

/** Explains the missing form to users without the role ADMIN. */
export const onlyAdministrators = 'Only administrators (role ADMIN) change it.';

interface AuditLinkProps {
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string;
}

/** Link to the audit of an object; nothing for users who cannot see the audit. */
export function AuditLink({ kind, name, namespace }: AuditLinkProps) {
  if (!useSees('audit')) return null;
  const parameters = new URLSearchParams({ kind, name, ...(namespace === undefined ? {} : { namespace }) });
  return (
    <To address={`/audit?${parameters}`} label={`Changes of ${name}`}>
      Changes
    </To>
  );
}

type Managers = NonNullable<ClusterState['resource']>['managers'];

const ownManager: typeof API_FIELD_MANAGER = 'engine-gateway-api';

/** Short text for the managers of a resource; empty if unknown. */
export function managersText(managers: Managers): string {
  return [...new Set(managers.map(({ manager }) => (manager === ownManager ? 'REST' : manager)))].join(', ');
}

/** Managers other than the gateway, such as `kubectl` or a GitOps controller. */
function otherManagers(managers: Managers): Managers {
  return managers.filter(({ manager }) => manager !== ownManager);
}
