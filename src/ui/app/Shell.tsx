import {
  Alert,
  Burger,
  Button,
  Code,
  Group,
  NavLink,
  Popover,
  SegmentedControl,
  Select,
  Stack,
  Text,
  Title,
  useMantineColorScheme,
} from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconAdjustments, IconAlertTriangle, IconLogout, IconPlugConnectedX, IconUser } from '@tabler/icons-react';
import { type ReactNode, useRef, useState } from 'react';
import { Link, matchPath, useLocation } from 'react-router';
import { call } from '../client/call.ts';
import { type Unavailable, useHealth } from '../client/live.ts';
import { notifyFailed } from '../components/notify.tsx';
import { MessageText, Time, timeZones, useTimeZone } from '../components/time.tsx';
import { useRole, useSession, useSessionChange } from '../session/session.ts';
import { gatewayVersion, hasSharedOrigin, product } from './gateway.ts';
import type { Page } from './pages.ts';
import { useReturnPlace } from './returnPlace.ts';
import { Search } from './Search.tsx';
import classes from './Shell.module.css';

export function Shell({ pages, children }: { readonly pages: readonly Page[]; readonly children: ReactNode }) {
  const [opened, { toggle, close }] = useDisclosure(false);
  const { pathname } = useLocation();
  const main = useRef<HTMLElement>(null);
  useReturnPlace(() => {
    close();
    // Users of screen readers and of the keyboard continue at the start of the new page, unless a dialog is open by now.
    if (!document.activeElement?.closest('[role="dialog"]')) main.current?.focus({ preventScroll: true });
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

interface OutsideProps {
  /** True if there is a heading; false if a page follows within a moment. */
  readonly hasTitle?: boolean;
  readonly children: ReactNode;
}

export function Outside({ hasTitle = true, children }: OutsideProps) {
  return (
    <div className={classes.frame}>
      <OutageBanner showsData={false} />
      <main className={classes.place}>
        {hasTitle && (
          <Title order={1} ta="center">
            {product} Gateway
          </Title>
        )}
        {children}
      </main>
    </div>
  );
}

/** Shows on every page that the gateway or a dependency is unavailable, and since when the data is stale. */
function OutageBanner({ showsData = true }: { readonly showsData?: boolean }) {
  const { isReachable, unavailable } = useHealth();
  const [lostAt, setLostAt] = useState<number | null>(null);
  if (isReachable && lostAt !== null) setLostAt(null);
  if (!isReachable && lostAt === null) setLostAt(Date.now());
  return (
    <div role="status">
      {!isReachable && (
        <Banner title="No connection to the gateway">
          {showsData ? 'What is shown is as of ' : 'It was lost at '}
          <Time at={lostAt ?? Date.now()} />. It goes on by itself once the gateway is back.
        </Banner>
      )}
      {isReachable &&
        unavailable.map(({ name, message }) => (
          <Banner key={name} title={titles[name]}>
            {consequences[name]} The gateway says: <MessageText text={message} />
          </Banner>
        ))}
    </div>
  );
}

function Banner({ title, children }: { readonly title: string; readonly children: React.ReactNode }) {
  return (
    <Alert
      role="presentation"
      className={classes.warning}
      color="orange"
      title={title}
      icon={<IconPlugConnectedX size={18} aria-hidden />}
    >
      {children}
    </Alert>
  );
}

const titles: Readonly<Record<Unavailable['name'], string>> = {
  database: 'No connection to the database',
  'resource source': 'No connection to where resources are declared',
};

const consequences: Readonly<Record<Unavailable['name'], string>> = {
  database: 'Queries go on; history, queue and resource groups cannot be read meanwhile.',
  'resource source': 'Queries go on as last declared; changes of resources have no effect meanwhile.',
};

/** Warns administrators that a page of an engine can act in their name, and shows the fix. */
function SharedOriginWarning() {
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

function Settings() {
  return (
    <Group gap="xs" wrap="nowrap">
      <Display />
      <User />
    </Group>
  );
}

function Display() {
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  const { timeZone, choose } = useTimeZone();
  return (
    <HeadMenu value={timeZone} about="Display:" icon={<IconAdjustments size={16} aria-hidden />} width={280}>
      <Select
        label="Time zone"
        data={timeZones}
        value={timeZone}
        onChange={choose}
        searchable
        limit={100}
        allowDeselect={false}
        openOnFocus={false}
        comboboxProps={{ withinPortal: false }}
      />
      <Stack gap={4}>
        <Text size="sm" fw={500} id="theme-label">
          Theme
        </Text>
        <SegmentedControl
          aria-labelledby="theme-label"
          value={colorScheme}
          onChange={(value) => setColorScheme(value as typeof colorScheme)}
          data={[
            { value: 'auto', label: 'System' },
            { value: 'light', label: 'Light' },
            { value: 'dark', label: 'Dark' },
          ]}
        />
      </Stack>
    </HeadMenu>
  );
}

function User() {
  const { user, loginMethods } = useSession();
  const changed = useSessionChange();
  const logOut = async () => {
    let providerLogout: unknown;
    try {
      providerLogout = await call<unknown>('/logout');
    } catch (error) {
      notifyFailed('The logout did not work', error);
      return;
    }
    await changed();
    if (typeof providerLogout === 'string') window.location.assign(providerLogout);
  };
  return (
    <HeadMenu value={user.userName} about="User" icon={<IconUser size={16} aria-hidden />} width={260}>
      <div>
        <Text size="sm" className={classes.name}>
          {user.userName}
        </Text>
        <Text size="xs" c="dimmed">
          {loginMethods.length === 0
            ? 'No authentication is configured: everybody has all roles.'
            : `Roles: ${user.roles.length === 0 ? 'none' : user.roles.join(', ')}`}
        </Text>
      </div>
      {loginMethods.length > 0 && (
        <Button
          variant="default"
          size="xs"
          leftSection={<IconLogout size={16} aria-hidden />}
          onClick={() => void logOut()}
        >
          Log out
        </Button>
      )}
    </HeadMenu>
  );
}

interface HeadMenuProps {
  readonly value: string;
  readonly about: string;
  readonly icon: ReactNode;
  readonly width: number;
  readonly children: ReactNode;
}

function HeadMenu({ value, about, icon, width, children }: HeadMenuProps) {
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
