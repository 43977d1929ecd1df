import { Button, Popover, Stack } from '@mantine/core';
import type { ReactNode } from 'react';
import classes from './HeadMenu.module.css';

interface HeadMenuProps {
  readonly value: string;
  readonly about: string;
  readonly icon: ReactNode;
  readonly width: number;
  readonly children: ReactNode;
}

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
