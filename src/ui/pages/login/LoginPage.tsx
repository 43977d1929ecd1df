import { Alert, Button, Card, PasswordInput, Stack, Text, Textarea, TextInput, Title } from '@mantine/core';
import { useForm } from '@mantine/form';
import { IconAlertTriangle, IconInfoCircle } from '@tabler/icons-react';
import { type ReactNode, useEffect, useState } from 'react';
import { product } from '../../app/gateway.ts';
import { messageOf } from '../../client/apiError.ts';
import { call } from '../../client/call.ts';
import type { LoginType } from '../../client/types.ts';
import { useSessionChange } from '../../session/session.ts';
import classes from './LoginPage.module.css';

interface LoginPageProps {
  readonly loginType: LoginType;
  /** A session ended without a logout. */
  readonly expired: boolean;
}

/** Logging in, in the way the gateway is configured for. */
export function LoginPage({ loginType, expired }: LoginPageProps) {
  useEffect(() => {
    document.title = `Log in · ${product} Gateway`;
  }, []);
  return (
    <main className={classes.page}>
      <Card withBorder padding="lg" className={classes.card}>
        <Stack>
          <Title order={1} ta="center">
            {product} Gateway
          </Title>
          {expired && (
            <Alert role="status" color="blue" icon={<IconInfoCircle aria-hidden />}>
              Your session has ended. Log in again to go on where you were.
            </Alert>
          )}
          {loginType === 'oauth' ? <ProviderLogin /> : <PasswordLogin byToken={loginType === 'kubernetes'} />}
        </Stack>
      </Card>
    </main>
  );
}

function PasswordLogin({ byToken }: { readonly byToken: boolean }) {
  const changed = useSessionChange();
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const form = useForm({
    mode: 'uncontrolled',
    initialValues: { username: '', password: '' },
    validate: {
      username: (value) => (byToken || value !== '' ? null : 'Enter your name.'),
      password: (value) => (value.trim() !== '' ? null : byToken ? 'Enter a token.' : 'Enter your password.'),
    },
  });
  const submit = form.onSubmit(async ({ username, password }) => {
    setBusy(true);
    setError(null);
    try {
      await call('/login', { body: { username, password: byToken ? password.trim() : password } });
      await changed();
    } catch (failed) {
      setError(messageOf(failed));
    } finally {
      setBusy(false);
    }
  });
  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        {error !== null && <Refusal>{error}</Refusal>}
        {byToken ? (
          <Textarea
            label="Token"
            description="A token of the Kubernetes cluster, for example of kubectl create token NAME"
            autoComplete="off"
            autoFocus
            spellCheck={false}
            minRows={4}
            rows={4}
            key={form.key('password')}
            {...form.getInputProps('password')}
          />
        ) : (
          <>
            <TextInput
              label="Name"
              autoComplete="username"
              autoFocus
              key={form.key('username')}
              {...form.getInputProps('username')}
            />
            <PasswordInput
              label="Password"
              autoComplete="current-password"
              visibilityToggleButtonProps={{ 'aria-label': 'Show the password' }}
              key={form.key('password')}
              {...form.getInputProps('password')}
            />
          </>
        )}
        <Button type="submit" loading={busy} fullWidth>
          Log in
        </Button>
      </Stack>
    </form>
  );
}

function ProviderLogin() {
  const [error, setError] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const begin = async () => {
    setBusy(true);
    setError(null);
    try {
      window.location.assign(await call<string>('/sso'));
    } catch (failed) {
      setError(messageOf(failed));
      setBusy(false);
    }
  };
  return (
    <Stack>
      {error !== null && <Refusal>{error}</Refusal>}
      <Text size="sm" ta="center">
        You log in at your organisation's identity provider.
      </Text>
      <Button onClick={() => void begin()} loading={busy} fullWidth>
        Log in
      </Button>
    </Stack>
  );
}

function Refusal({ children }: { readonly children: ReactNode }) {
  return (
    <Alert role="alert" color="red" icon={<IconAlertTriangle aria-hidden />}>
      {children}
    </Alert>
  );
}
