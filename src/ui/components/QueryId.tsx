import { Anchor } from '@mantine/core';
import { Fragment } from 'react';
import { Link } from 'react-router';
import { queryAddress } from './links.ts';
import classes from './QueryId.module.css';

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
