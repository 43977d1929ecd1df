import { Alert, Button, Center, Group, Loader, Stack, Text } from '@mantine/core';
import { IconAlertTriangle, IconInbox, IconLock } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import { ApiError, messageOf } from '../client/apiError.ts';
import classes from './states.module.css';

export function Loading({ label }: { readonly label: string }) {
  return (
    <Center className={classes.state} role="status" aria-label={label}>
      <Loader />
    </Center>
  );
}

interface ErrorStateProps {
  readonly error: unknown;
  readonly onRetry?: () => void;
  readonly retryLabel?: string;
}

/** A failure, with an action if possible. */
export function ErrorState({ error, onRetry, retryLabel = 'Try again' }: ErrorStateProps) {
  const forbidden = error instanceof ApiError && error.status === 403;
  const title = forbidden ? 'Not for you' : isAway(error) ? 'Unavailable at the moment' : 'This did not work';
  return (
    <Alert
      role="alert"
      color={forbidden ? 'yellow' : 'red'}
      icon={forbidden ? <IconLock aria-hidden /> : <IconAlertTriangle aria-hidden />}
      title={title}
    >
      <Stack gap="sm" align="flex-start">
        <Text size="sm">{messageOf(error)}</Text>
        {onRetry !== undefined && !forbidden && (
          <Button size="xs" variant="default" onClick={onRetry}>
            {retryLabel}
          </Button>
        )}
      </Stack>
    </Alert>
  );
}

/** Shown above data if the latest call failed. */
export function StaleNotice({ error }: { readonly error: unknown }) {
  return (
    <Alert role="status" color="yellow" icon={<IconAlertTriangle aria-hidden />} title="Shown as last known">
      {messageOf(error)}
    </Alert>
  );
}

export function EmptyState({ title, children }: { readonly title: string; readonly children?: ReactNode }) {
  return (
    <Center className={classes.state}>
      <Stack align="center" gap="xs">
        <IconInbox size={32} stroke={1.5} aria-hidden />
        <Text ta="center">{title}</Text>
        {children !== undefined && <Group justify="center">{children}</Group>}
      </Stack>
    </Center>
  );
}

function isAway(error: unknown): boolean {
  return error instanceof ApiError && error.mayPass;
}
