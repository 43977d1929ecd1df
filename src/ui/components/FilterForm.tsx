import { Button, Group, Paper } from '@mantine/core';
import type { FormEventHandler, ReactNode } from 'react';

interface FilterFormProps {
  /** Class of the grid of fields. */
  readonly className: string | undefined;
  readonly onSubmit: FormEventHandler<HTMLFormElement>;
  readonly onClear: () => void;
  /** The fields. */
  readonly children: ReactNode;
}

/** What a list is narrowed to. Applied by the button or the enter key, as each look costs the database something. */
export function FilterForm({ className, onSubmit, onClear, children }: FilterFormProps) {
  return (
    <Paper withBorder p="sm" component="search">
      <form onSubmit={onSubmit} aria-label="Filters">
        <div className={className}>{children}</div>
        <Group justify="flex-end" mt="sm" gap="xs">
          <Button size="xs" variant="default" onClick={onClear}>
            Clear
          </Button>
          <Button size="xs" type="submit">
            Filter
          </Button>
        </Group>
      </form>
    </Paper>
  );
}

/** What is wrong with the end of a range of wall-clock times in a form; null: nothing, or one of them is not given. */
export function wrongEnd(to: string, { from }: { readonly from: string }): string | null {
  return from !== '' && to !== '' && to <= from ? 'Must be later than "From".' : null;
}
