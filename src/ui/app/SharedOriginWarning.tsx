import { Alert, Code } from '@mantine/core';
import { IconAlertTriangle } from '@tabler/icons-react';
import { useRole } from '../session/session.ts';
import { hasSharedOrigin } from './gateway.ts';
import classes from './SharedOriginWarning.module.css';

/** Warns administrators that a page of an engine can act in their name, and shows the fix. */
export function SharedOriginWarning() {
  const isAdmin = useRole('ADMIN');
  if (!isAdmin || !hasSharedOrigin) return null;
  return (
    <Alert
      role="note"
      className={classes.warning}
      color="orange"
      variant="light"
      title="Engines' web pages share the address of this page"
      icon={<IconAlertTriangle size={18} aria-hidden />}
    >
      A script in a page of an engine can do whatever you may do here. Give the gateway's pages a host name of their own
      (<Code>server.adminHosts</Code>), or do not proxy pages of engines (<Code>server.enginePages: redirect</Code>).
    </Alert>
  );
}
