import { Anchor } from '@mantine/core';
import { Link, useLocation } from 'react-router';
import { useSees } from '../session/session.ts';
import { clusterAddress, groupAddress, ruleAddress } from './links.ts';

/**
 * The decoded name at the end of the page's path: names may have slashes and percent signs, which the router's
 * parameters do not distinguish.
 */
export function useNameInPath(): string {
  const { pathname } = useLocation();
  const last = pathname.replace(/\/+$/, '').split('/').at(-1) ?? '';
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

export function ClusterName({ name }: { readonly name: string }) {
  const isShown = useSees('cluster');
  return isShown ? <Named name={name} address={clusterAddress(name)} /> : <span>{name}</span>;
}

export function GroupName({ name }: { readonly name: string }) {
  const isShown = useSees('limits');
  return isShown ? <Named name={name} address={groupAddress(name)} /> : <span>{name}</span>;
}

export function RuleName({ name }: { readonly name: string }) {
  const isShown = useSees('routing-rules');
  return isShown ? <Named name={name} address={ruleAddress(name)} /> : <span>{name}</span>;
}

function Named({ name, address }: { readonly name: string; readonly address: string }) {
  return (
    <Anchor component={Link} to={address} size="sm" underline="always">
      {name}
    </Anchor>
  );
}
