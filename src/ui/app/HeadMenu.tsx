import { Button, Popover, Stack } from '@mantine/core';
import type { ReactNode } from 'react';
import classes from './HeadMenu.module.css';

interface HeadMenuProps {
  /** What is set at present: the button shows it where there is room. */
  readonly value: string;
  /** Its accessible name. */
  readonly about: string;
  readonly icon: ReactNode;
  /** Width of what opens, in pixels. */
  readonly width: number;
  readonly children: ReactNode;
}

/** A button in the head, and what opens below it. */
export function HeadMenu({ value, about, icon, width, children }: HeadMenuProps) {
  return (
    <Popover width={width} position="bottom-end" trapFocus returnFocus>
      <Popover.Target>
        <Button
          variant="default"
          size="xs"
          classNames={{ section: classes.icon ?? '' }}
          leftSection={icon}
          aria-label={`${about} ${value}`}
        >
          <span className={classes.wide} title={value}>
            {value}
          </span>
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Stack gap="sm">{children}</Stack>
      </Popover.Dropdown>
    </Popover>
  );
}
