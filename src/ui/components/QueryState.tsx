import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { ErrorState, Loading, StaleNotice } from './states.tsx';

interface QueryStateProps<T> {
  readonly query: UseQueryResult<T>;
  readonly label: string;
  readonly children: (data: T) => ReactNode;
}

/** The states of a query: loading, failed without data, failed with stale data, loaded. */
export function RequestState<T>({ query, label, children }: QueryStateProps<T>) {
  const { data, error } = query;
  if (data === undefined) {
    if (error !== null) return <ErrorState error={error} onRetry={() => void query.refetch()} />;
    return <Loading label={label} />;
  }
  return (
    <>
      {error !== null && <StaleNotice error={error} />}
      {children(data)}
    </>
  );
}
