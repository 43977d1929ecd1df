import { Button, Center, Group, Loader, Paper, Stack, Text, Title } from '@mantine/core';
import { useDocumentTitle } from '@mantine/hooks';
import { IconInbox, IconLock } from '@tabler/icons-react';
import type { UseInfiniteQueryResult, UseQueryResult } from '@tanstack/react-query';
import { type ReactNode, useId } from 'react';
import { product } from '../app/gateway.ts';
import { ApiError, isMissing, messageOf } from '../client/call.ts';
import classes from './components.module.css';
import { Faint, Notice } from './elements.tsx';

interface PageFrameProps {
  /** Heading of the page, and title of the browser's tab. */
  readonly title: string;
  /** Buttons next to the heading. */
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

/** The frame of every page: its only heading of the first level, with its actions. */
export function PageFrame({ title, actions, children }: PageFrameProps) {
  useDocumentTitle(`${title} · ${product} Gateway`);
  return (
    <div className={classes.page}>
      <Group justify="space-between" gap="sm">
        <Title order={1} className={classes.title}>
          {title}
        </Title>
        {actions !== undefined && <Group gap="xs">{actions}</Group>}
      </Group>
      {children}
    </div>
  );
}

/** A framed part of a page with its heading. @param actions controls next to the heading */
export function Panel({ title, actions, children }: PageFrameProps) {
  const id = useId();
  return (
    <Paper withBorder p="md" component="section" aria-labelledby={id} className={classes.panel}>
      <Group justify="space-between" gap="sm" mb="sm">
        <Title order={2} id={id}>
          {title}
        </Title>
        {actions}
      </Group>
      {children}
    </Paper>
  );
}

/** Panels next to each other if there is space, else below each other. */
export function Columns({ children }: { readonly children: ReactNode }) {
  return <div className={classes.columns}>{children}</div>;
}

/** The frame of a table. */
export function Framed({ children }: { readonly children: ReactNode }) {
  return (
    <Paper withBorder p="xs">
      {children}
    </Paper>
  );
}

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
  const isAway = error instanceof ApiError && error.mayPass;
  const title = forbidden ? 'Not for you' : isAway ? 'Unavailable at the moment' : 'This did not work';
  const look = forbidden ? { color: 'yellow', icon: <IconLock aria-hidden /> } : {};
  return (
    <Notice tone="error" title={title} {...look}>
      <Stack gap="sm" align="flex-start">
        <Text size="sm">{messageOf(error)}</Text>
        {onRetry !== undefined && !forbidden && (
          <Button size="xs" variant="default" onClick={onRetry}>
            {retryLabel}
          </Button>
        )}
      </Stack>
    </Notice>
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

interface RequestStateProps<T> {
  readonly query: UseQueryResult<T>;
  readonly label: string;
  /** Shown if the object does not exist. */
  readonly missing?: ReactNode;
  readonly children: (data: T) => ReactNode;
}

/** The states of a query: loading, failed without data, failed with stale data, loaded. */
export function RequestState<T>({ query: { data, error, refetch }, label, missing, children }: RequestStateProps<T>) {
  if (missing !== undefined && isMissing(error)) return missing;
  if (data === undefined)
    return error === null ? <Loading label={label} /> : <ErrorState error={error} onRetry={() => void refetch()} />;
  return (
    <>
      {error !== null && (
        <Notice tone="warning" title="Shown as last known">
          {messageOf(error)}
        </Notice>
      )}
      {children(data)}
    </>
  );
}

/** A panel with the states of a query. */
export function RequestPanel<T>({ title, ...request }: RequestStateProps<T> & { readonly title: string }) {
  return (
    <Panel title={title}>
      <RequestState {...request} />
    </Panel>
  );
}

interface EarlierPagesProps {
  readonly query: UseInfiniteQueryResult;
  /** The listed objects, such as `changes`. */
  readonly what: string;
}

/** Button that fetches the next page of a list, or a note at its end. */
export function EarlierPages({ query, what }: EarlierPagesProps) {
  if (!query.hasNextPage) return <Faint size="sm">There are no earlier {what}.</Faint>;
  return (
    <Group>
      <Button variant="default" loading={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
        Earlier {what}
      </Button>
    </Group>
  );
}
