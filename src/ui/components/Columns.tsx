import type { ReactNode } from 'react';
import classes from './Columns.module.css';

/** Panels next to each other if there is space, else below each other. */
export function Columns({ children }: { readonly children: ReactNode }) {
  return <div className={classes.columns}>{children}</div>;
}
