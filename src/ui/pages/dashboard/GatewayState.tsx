import { Group, Text } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import type { Overview } from '../../client/types.ts';
import { Ago } from '../../components/time.tsx';
import classes from './dashboard.module.css';
import { GATEWAY_ANCHOR } from './problemTexts.ts';

/** The replica that responds: its dependencies, leadership, and state of the history. */
export function GatewayState({ overview }: { readonly overview: Overview }) {
  const { version, startedAt, notReadyBecause, components, history } = overview;
  return (
    <ul id={GATEWAY_ANCHOR} className={classes.components}>
      <Item ok={notReadyBecause === null} name="ready">
        {notReadyBecause ?? 'takes requests'}
      </Item>
      {components.map(({ name, ok, message }) => (
        <Item key={name} ok={ok} name={name}>
          {message}
        </Item>
      ))}
      <Item ok={history.lost === 0} name="history">
        {history.written.toLocaleString('en')} queries written since the start, {history.lost.toLocaleString('en')} lost
      </Item>
      <Item ok name="version">
        {version}, started <Ago at={Date.parse(startedAt)} />
      </Item>
    </ul>
  );
}

function Item({ ok, name, children }: { readonly ok: boolean; readonly name: string; readonly children: ReactNode }) {
  const Icon = ok ? IconCircleCheck : IconAlertTriangle;
  return (
    <li>
      <Group gap={6} wrap="nowrap" align="flex-start">
        <Icon size={18} className={ok ? classes.good : classes.poor} role="img" aria-label={ok ? 'fine' : 'not fine'} />
        <Text size="sm" className={classes.name}>
          <b>{name}</b>: {children}
        </Text>
      </Group>
    </li>
  );
}
