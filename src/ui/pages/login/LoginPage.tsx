import { Button, Card, Divider, PasswordInput, Stack, Text, Textarea, TextInput } from '@mantine/core';
import { useForm } from '@mantine/form';
import { useDocumentTitle } from '@mantine/hooks';
import { useMutation } from '@tanstack/react-query';
import { useState } from 'react';
import { product } from '../../app/gateway.ts';
import { call, messageOf } from '../../client/call.ts';
import type { LoginMethod } from '../../client/types.ts';
import classes from '../../components/components.module.css';
import { Notice } from '../../components/elements.tsx';
import { useSessionChange } from '../../session/session.ts';

interface LoginPageProps {
  readonly methods: readonly LoginMethod[];
  /** True if a session ended without a logout. */
  readonly expired: boolean;
}

export function LoginPage({ methods, expired }: LoginPageProps) {
  useDocumentTitle(`Log in · ${product} Gateway`);
  return (
    <Card withBorder padding="lg" className={classes.card}>
      <Stack>
        {expired && <Notice tone="info">Your session has ended. Log in again to go on where you were.</Notice>}
        <Methods methods={methods} />
      </Stack>
    </Card>
  );
}

function Methods({ methods }: { readonly methods: readonly LoginMethod[] }) {
  const providers = methods.filter((method) => method.kind === 'provider');
  const isOnly = providers.length === 1 && methods.length === 1;
  // Without login methods, the form's response explains why.
  const hasFields = providers.length < Math.max(1, methods.length);
  return (
    <>
      {hasFields && <Fields methods={methods} />}
      {hasFields && providers.length > 0 && <Divider label="or" labelPosition="center" />}
      {providers.length > 0 && <Providers providers={providers} isOnly={isOnly} />}
    </>
  );
}

/** Name and password, or a token of the cluster; a tab for each if there are both. */
function Fields({ methods }: { readonly methods: readonly LoginMethod[] }) {
  const takesTokens = methods.some(({ kind }) => kind === 'kubernetes');
  const takesBoth = takesTokens && methods.some(({ kind }) => kind === 'form');
  const [byToken, setByToken] = useState(takesTokens && !takesBoth);
  return (
    <>
      <PasswordLogin key={String(byToken)} byToken={byToken} />
      {takesBoth && (
        <Button variant="subtle" size="compact-sm" onClick={() => setByToken(!byToken)}>
          {byToken ? 'Use name and password' : 'Use a token of the Kubernetes cluster'}
        </Button>
      )}
    </>
  );
}

function PasswordLogin({ byToken }: { readonly byToken: boolean }) {
  const changed = useSessionChange();
  const form = useForm({
    mode: 'uncontrolled',
    initialValues: { username: '', password: '' },
    validate: {
      username: (value) => (byToken || value !== '' ? null : 'Enter your name.'),
      password: (value) => (value.trim() !== '' ? null : byToken ? 'Enter a token.' : 'Enter your password.'),
    },
  });
  const login = useMutation({
    mutationFn: async ({ username, password }: typeof form.values) => {
      await call('/login', { body: { username, password: byToken ? password.trim() : password } });
      await changed();
    },
  });
  const input = (name: 'username' | 'password') => ({ key: form.key(name), ...form.getInputProps(name) });
  return (
    <form onSubmit={form.onSubmit((values) => login.mutate(values))} noValidate>
      <Stack>
        {login.error !== null && <Notice tone="error">{messageOf(login.error)}</Notice>}
        {byToken ? (
          <Textarea
            label="Token"
            description="A token of the Kubernetes cluster, for example of kubectl create token NAME"
            autoComplete="off"
            autoFocus
            spellCheck={false}
            minRows={4}
            rows={4}
            {...input('password')}
          />
        ) : (
          <>
            <TextInput label="Name" autoComplete="username" autoFocus {...input('username')} />
            <PasswordInput
              label="Password"
              autoComplete="current-password"
              visibilityToggleButtonProps={{ 'aria-label': 'Show the password' }}
              {...input('password')}
            />
          </>
        )}
        <Button type="submit" loading={login.isPending} fullWidth>
          Log in
        </Button>
      </Stack>
    </form>
  );
}

interface Provider {
  readonly name: string;
  readonly label: string;
}

function Providers({ providers, isOnly }: { readonly providers: readonly Provider[]; readonly isOnly: boolean }) {
  const login = useMutation({
    mutationFn: async (name: string) => window.location.assign(await call<string>(`/sso/${encodeURIComponent(name)}`)),
  });
  // The provider's page follows.
  const busy = login.isPending || login.isSuccess ? login.variables : null;
  return (
    <Stack gap={isOnly ? 'md' : 'xs'}>
      {login.error !== null && <Notice tone="error">{messageOf(login.error)}</Notice>}
      {isOnly && (
        <Text size="sm" ta="center">
          You log in at your organisation's identity provider.
        </Text>
      )}
      {providers.map(({ name, label }) => (
        <Button
          key={name}
          variant={isOnly ? 'filled' : 'default'}
          onClick={() => login.mutate(name)}
          loading={busy === name}
          disabled={busy !== null && busy !== name}
          fullWidth
        >
          {isOnly ? 'Log in' : `Log in with ${label}`}
        </Button>
      ))}
    </Stack>
  );
}
