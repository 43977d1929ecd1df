import { Burger, Group, NavLink, Text } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { type ReactNode, useRef } from 'react';
import { Link, matchPath, useLocation } from 'react-router';
import { gatewayVersion, product } from './gateway.ts';
import { OutageBanner } from './OutageBanner.tsx';
import type { Page } from './pages.ts';
import { useReturnPlace } from './returnPlace.ts';
import { Search } from './Search.tsx';
import { Settings } from './Settings.tsx';
import { SharedOriginWarning } from './SharedOriginWarning.tsx';
import classes from './Shell.module.css';

interface ShellProps {
  readonly pages: readonly Page[];
  readonly children: ReactNode;
}

export function Shell({ pages, children }: ShellProps) {
  const [opened, { toggle, close }] = useDisclosure(false);
  const { pathname } = useLocation();
  const main = useRef<HTMLElement>(null);
  useReturnPlace(() => {
    // Users of screen readers and of the keyboard continue at the start of the new page.
    close();
    main.current?.focus({ preventScroll: true });
  });

  return (
    <div className={classes.shell}>
      <button type="button" className={classes.skip} onClick={() => main.current?.focus()}>
        Skip to the page
      </button>
      <header className={classes.header}>
        <Group gap="xs" wrap="nowrap">
          <Burger
            className={classes.burger}
            opened={opened}
            onClick={toggle}
            size="sm"
            aria-label={opened ? 'Close the menu' : 'Open the menu'}
            aria-expanded={opened}
            aria-controls="menu"
          />
          <img src="logo.svg" alt="" width={24} height={24} />
          <Text className={classes.product} fw={600} size="lg">
            {product} Gateway
          </Text>
        </Group>
        <Group gap="xs" wrap="nowrap">
          <Search pages={pages} />
          <Settings />
        </Group>
      </header>
      <nav id="menu" aria-label="Pages" className={classes.nav} data-opened={opened || undefined}>
        {pages.map((page) => {
          const current = isAt(page, pathname);
          return (
            <NavLink
              key={page.id}
              component={Link}
              to={`/${page.path}`}
              label={page.title}
              leftSection={<page.icon size={18} stroke={1.75} aria-hidden />}
              active={current}
              aria-current={current ? 'page' : undefined}
              variant="light"
              onClick={close}
            />
          );
        })}
      </nav>
      <main ref={main} id="main" tabIndex={-1} className={classes.main}>
        <OutageBanner />
        <SharedOriginWarning />
        {children}
      </main>
      <footer className={classes.footer}>
        {product} Gateway {gatewayVersion}
      </footer>
    </div>
  );
}

function isAt({ path, details = [] }: Page, pathname: string): boolean {
  return [path, ...details.map((detail) => detail.path)].some((pattern) => matchPath(`/${pattern}`, pathname) !== null);
}
