import { Alert } from '@mantine/core';
import { IconPlugConnectedX } from '@tabler/icons-react';
import { useState } from 'react';
import { type Unavailable, useHealth } from '../client/health.ts';
import { MessageText } from '../components/MessageText.tsx';
import { Time } from '../components/time.tsx';
import classes from './SharedOriginWarning.module.css';

interface OutageBannerProps {
  readonly showsData?: boolean;
}

/** Shows on every page that the gateway or a dependency is unavailable, and since when the data is stale. */
export function OutageBanner({ showsData = true }: OutageBannerProps) {
  const { isReachable, unavailable } = useHealth();
  const [lostAt, setLostAt] = useState<number | null>(null);
  if (isReachable && lostAt !== null) setLostAt(null);
  if (!isReachable && lostAt === null) setLostAt(Date.now());
  return (
    <div role="status">
      {!isReachable && (
        <Banner title="No connection to the gateway">
          {showsData ? 'What is shown is as of ' : 'It was lost at '}
          <Time at={lostAt ?? Date.now()} />. It goes on by itself once the gateway is back.
        </Banner>
      )}
      {isReachable &&
        unavailable.map(({ name, message }) => (
          <Banner key={name} title={titles[name]}>
            {consequences[name]} The gateway says: <MessageText text={message} />
          </Banner>
        ))}
    </div>
  );
}

function Banner({ title, children }: { readonly title: string; readonly children: React.ReactNode }) {
  return (
    <Alert
      role="presentation"
      className={classes.warning}
      color="orange"
      title={title}
      icon={<IconPlugConnectedX size={18} aria-hidden />}
    >
      {children}
    </Alert>
  );
}

const titles: Readonly<Record<Unavailable['name'], string>> = {
  database: 'No connection to the database',
  'resource source': 'No connection to where resources are declared',
};

const consequences: Readonly<Record<Unavailable['name'], string>> = {
  database: 'Queries go on; history, queue and resource groups cannot be read meanwhile.',
  'resource source': 'Queries go on as last declared; changes of resources have no effect meanwhile.',
};
