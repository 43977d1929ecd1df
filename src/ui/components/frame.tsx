import { Group, Paper, Title } from '@mantine/core';
import { type ReactNode, useEffect, useId } from 'react';
import { product } from '../app/gateway.ts';
import classes from './frame.module.css';

interface PageFrameProps {
  /** Heading of the page, and title of the browser's tab. */
  readonly title: string;
  /** Buttons next to the heading. */
  readonly actions?: ReactNode;
  readonly children: ReactNode;
}

/** The frame of every page: its only heading of the first level, with its actions. */
export function PageFrame({ title, actions, children }: PageFrameProps) {
  useEffect(() => {
    document.title = `${title} · ${product} Gateway`;
  }, [title]);
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
