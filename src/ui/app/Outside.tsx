import { Title } from '@mantine/core';
import type { ReactNode } from 'react';
import { product } from './gateway.ts';
import { OutageBanner } from './OutageBanner.tsx';
import classes from './Outside.module.css';

interface OutsideProps {
  /** True if there is a heading; false if a page follows within a moment. */
  readonly hasTitle?: boolean;
  readonly children: ReactNode;
}

export function Outside({ hasTitle = true, children }: OutsideProps) {
  return (
    <div className={classes.frame}>
      <OutageBanner showsData={false} />
      <main className={classes.place}>
        {hasTitle && (
          <Title order={1} ta="center">
            {product} Gateway
          </Title>
        )}
        {children}
      </main>
    </div>
  );
}
