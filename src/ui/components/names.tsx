import { Anchor } from '@mantine/core';
import { Fragment, type ReactNode } from 'react';
import { Link, useLocation } from 'react-router';
import { useSees } from '../session/session.ts';
import classes from './components.module.css';
import { To } from './elements.tsx';

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

/** Digest of the shape of a statement. */
export const DigestName = ({ name }: NameProps) => <Named name={name} page="workload" address={digestAddress} />;

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

/** Maximum length of cluster query ids. The gateway's ids are longer and would make tables wider than the window. */
const MAX_CLUSTER_ID_LENGTH = 32;

/** Link to the page of a query: on one line if there is space, else broken between the parts of the id. */
export function QueryId({ id }: { readonly id: string }) {
  return (
    <Anchor
      component={Link}
      to={queryAddress(id)}
      size="sm"
      className={id.length > MAX_CLUSTER_ID_LENGTH ? classes.long : classes.id}
      aria-label={id}
    >
      {id.split('_').map((part, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: parts have no identity but their place
        <Fragment key={index}>
          {index > 0 && (
            <>
              <wbr />_
            </>
          )}
          {part}
        </Fragment>
      ))}
    </Anchor>
  );
}

export const queryAddress = (queryId: string): string => `/queries/${encodeURIComponent(queryId)}`;

export const clusterAddress = (name: string): string => `/clusters/${encodeURIComponent(name)}`;

export const digestAddress = (digest: string): string => `/workload/${digest}`;

export const ruleAddress = (name: string): string => `/routing-rules?rule=${encodeURIComponent(name)}`;

export const groupAddress = (name: string): string => `/groups/${encodeURIComponent(name)}`;

export const clusterHistoryAddress = (name: string): string => `/history?cluster=${encodeURIComponent(name)}`;

export const groupHistoryAddress = (name: string): string => `/history?routingGroup=${encodeURIComponent(name)}`;
