import { Fragment, type ReactNode } from 'react';
import { useLocation } from 'react-router';
import { useSees } from '../session/session.ts';
import { To } from './elements.tsx';
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

interface NameProps {
  readonly name: string;
}

export const ClusterName = ({ name }: NameProps) => <Named name={name} page="cluster" address={clusterAddress} />;

export const GroupName = ({ name }: NameProps) => <Named name={name} page="limits" address={groupAddress} />;

export const RuleName = ({ name }: NameProps) => <Named name={name} page="routing-rules" address={ruleAddress} />;

interface NamedProps extends NameProps {
  readonly page: string;
  readonly address: (name: string) => string;
}

/** A name, linked for users who see the object's page. */
function Named({ name, page, address }: NamedProps) {
  return useSees(page) ? <To address={address(name)}>{name}</To> : <span>{name}</span>;
}

/** Names in a line, separated by commas. @param of renders a name */
export function Names({ names, of }: { readonly names: readonly string[]; readonly of: (name: string) => ReactNode }) {
  return names.map((name, index) => (
    <Fragment key={name}>
      {index > 0 && ', '}
      {of(name)}
    </Fragment>
  ));
}

interface ListProps {
  readonly names: readonly string[];
}

export const ClusterNames = ({ names }: ListProps) => (
  <Names names={names} of={(name) => <ClusterName name={name} />} />
);

export const GroupNames = ({ names }: ListProps) => <Names names={names} of={(name) => <GroupName name={name} />} />;
