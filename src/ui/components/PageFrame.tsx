import { Group, Title } from '@mantine/core';
import { type ReactNode, useEffect } from 'react';
import { product } from '../app/gateway.ts';
import classes from './PageFrame.module.css';

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
