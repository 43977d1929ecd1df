import { Button, Group, SegmentedControl, Select, Stack, Text, useMantineColorScheme } from '@mantine/core';
import { IconAdjustments, IconLogout, IconUser } from '@tabler/icons-react';
import { call } from '../client/call.ts';
import { notifyFailed } from '../components/notify.tsx';
import { timeZones, useTimeZone } from '../components/time.tsx';
import { useSession, useSessionChange } from '../session/session.ts';
import { HeadMenu } from './HeadMenu.tsx';
import classes from './Settings.module.css';

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
