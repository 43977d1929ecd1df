import type { ReactNode } from 'react';
import classes from './Columns.module.css';

/** Panels beside each other where there is room, else below each other. */
export function Columns({ children }: { readonly children: ReactNode }) {
  return <div className={classes.columns}>{children}</div>;
}
