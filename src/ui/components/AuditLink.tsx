import { Anchor } from '@mantine/core';
import { Link } from 'react-router';
import { useSees } from '../session/session.ts';

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
    <Anchor component={Link} to={`/audit?${parameters}`} size="sm" underline="always" aria-label={`Changes of ${name}`}>
      Changes
    </Anchor>
  );
}
