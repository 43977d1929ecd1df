import { Button, Group, Menu, SegmentedControl, Select, Stack, Text, useMantineColorScheme } from '@mantine/core';
import { IconAdjustments, IconLogout, IconUser } from '@tabler/icons-react';
import { call } from '../client/call.ts';
import { notifyFailed } from '../components/notify.ts';
import { timeZones, useTimeZone } from '../components/time.tsx';
import { useSession, useSessionChange } from '../session/session.ts';
import classes from './Settings.module.css';

/** Menus of the head: how things are shown, and who is logged in. */
export function Settings() {
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
    <Menu width={280} position="bottom-end" closeOnItemClick={false} trapFocus returnFocus>
      <Menu.Target>
        <Button
          variant="default"
          size="xs"
          classNames={{ section: classes.icon ?? '' }}
          leftSection={<IconAdjustments size={16} aria-hidden />}
          aria-label={`Display: ${timeZone}`}
        >
          <span className={classes.wide}>{timeZone}</span>
        </Button>
      </Menu.Target>
      <Menu.Dropdown p="sm" role="group" aria-label="Display settings">
        <Stack gap="sm">
          <Select
            label="Time zone"
            data={timeZones}
            value={timeZone}
            onChange={choose}
            searchable
            limit={100}
            allowDeselect={false}
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
        </Stack>
      </Menu.Dropdown>
    </Menu>
  );
}

function User() {
  const { user, loginType } = useSession();
  const changed = useSessionChange();
  const logOut = async () => {
    try {
      await call('/logout');
    } catch (error) {
      notifyFailed('The logout did not work', error);
      return;
    }
    await changed();
  };
  return (
    <Menu width={260} position="bottom-end" returnFocus>
      <Menu.Target>
        <Button
          variant="default"
          size="xs"
          classNames={{ section: classes.icon ?? '' }}
          leftSection={<IconUser size={16} aria-hidden />}
          aria-label={`User ${user.userName}`}
        >
          <span className={classes.wide}>{user.userName}</span>
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          <Text size="sm" c="var(--mantine-color-text)" className={classes.name}>
            {user.userName}
          </Text>
          {loginType === 'none'
            ? 'No authentication is configured: everybody has all roles.'
            : `Roles: ${user.roles.length === 0 ? 'none' : user.roles.join(', ')}`}
        </Menu.Label>
        {loginType !== 'none' && (
          <Menu.Item leftSection={<IconLogout size={16} aria-hidden />} onClick={() => void logOut()}>
            Log out
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
