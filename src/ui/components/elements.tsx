import {
  ActionIcon,
  Alert,
  type AlertProps,
  Anchor,
  Badge,
  Button,
  CopyButton,
  Text,
  type TextProps,
} from '@mantine/core';
import { IconAlertTriangle, IconCheck, IconCopy, IconInfoCircle, type IconProps } from '@tabler/icons-react';
import type { ComponentType, ReactNode } from 'react';
import { Link } from 'react-router';

interface ToProps {
  readonly address: string;
  readonly size?: 'xs' | 'sm';
  readonly className?: string | undefined;
  /** Name of the link, if its text is not enough. */
  readonly label?: string;
  readonly children: ReactNode;
}

/** Underlined link to a page. */
export function To({ address, size = 'sm', className, label, children }: ToProps) {
  return (
    <Anchor component={Link} to={address} size={size} underline="always" className={className} aria-label={label}>
      {children}
    </Anchor>
  );
}

/** Small text of less importance. */
export function Faint(props: TextProps & { readonly children: ReactNode }) {
  return <Text size="xs" c="dimmed" {...props} />;
}

/** Text that names what follows. */
export function Strong(props: TextProps & { readonly children: ReactNode }) {
  return <Text size="sm" fw={500} {...props} />;
}

interface LightBadgeProps {
  readonly color: string;
  readonly text: string;
  readonly className?: string | undefined;
}

export function LightBadge({ color, text, className }: LightBadgeProps) {
  return (
    <Badge variant="light" color={color} className={className ?? ''}>
      {text}
    </Badge>
  );
}

const tones = {
  info: { color: 'blue', role: 'status', Icon: IconInfoCircle },
  warning: { color: 'yellow', role: 'status', Icon: IconAlertTriangle },
  error: { color: 'red', role: 'alert', Icon: IconAlertTriangle },
} as const;

interface NoticeProps extends AlertProps {
  readonly tone: keyof typeof tones;
}

/** A framed message with an icon. */
export function Notice({ tone, ...rest }: NoticeProps) {
  const { color, role, Icon } = tones[tone];
  return <Alert role={role} color={color} icon={<Icon aria-hidden />} {...rest} />;
}

interface ActionProps {
  readonly label: string;
  readonly icon: ComponentType<IconProps>;
  readonly onClick: () => void;
  readonly disabled?: boolean;
}

interface IconActionProps extends ActionProps {
  /** Shown by the browser on hover, as lists have many. */
  readonly hint?: string;
}

export function IconAction({ label, icon: Icon, hint, onClick, disabled = false }: IconActionProps) {
  return (
    <ActionIcon aria-label={label} title={hint} onClick={onClick} disabled={disabled}>
      <Icon size={18} aria-hidden />
    </ActionIcon>
  );
}

/** The main action of a page. */
export function MainAction({ label, icon: Icon, onClick }: ActionProps) {
  return (
    <Button size="sm" leftSection={<Icon size={16} aria-hidden />} onClick={onClick}>
      {label}
    </Button>
  );
}

interface SmallActionProps extends ActionProps {
  /** Name of the button, if the label is not enough. */
  readonly name?: string;
  readonly loading?: boolean;
  readonly size?: 'xs' | 'sm' | 'compact-sm';
}

export function SmallAction({ label, name, icon: Icon, size = 'xs', ...rest }: SmallActionProps) {
  const icon = <Icon size={size === 'compact-sm' ? 14 : 16} aria-hidden />;
  return (
    <Button size={size} variant="default" leftSection={icon} aria-label={name} {...rest}>
      {label}
    </Button>
  );
}

export function CopyText({ text, what }: { readonly text: string; readonly what: string }) {
  return (
    <CopyButton value={text}>
      {({ copied, copy }) => (
        // The browser's own hint, as lists have many of these.
        <ActionIcon
          onClick={copy}
          aria-label={copied ? `${what} copied` : `Copy ${what}`}
          title={copied ? 'Copied' : `Copy ${what}`}
        >
          {copied ? <IconCheck size={16} aria-hidden /> : <IconCopy size={16} aria-hidden />}
        </ActionIcon>
      )}
    </CopyButton>
  );
}

const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'] as const;

/** `1.5 GB`; units are multiples of 1024. */
export function formatBytes(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** `12 ms`, `3.4 s`, `2 min 5 s`, `1 h 20 min`. */
export function formatElapsed(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

export function listed(text: string): readonly string[] {
  return text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
}
