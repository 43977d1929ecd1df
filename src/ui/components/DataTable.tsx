import { Group, Table, UnstyledButton } from '@mantine/core';
import { IconArrowDown, IconArrowsSort, IconArrowUp } from '@tabler/icons-react';
import {
  type ColumnDef,
  columnFilteringFeature,
  createFilteredRowModel,
  createSortedRowModel,
  filterFn_includesString,
  globalFilteringFeature,
  type RowData,
  rowSortingFeature,
  sortFn_alphanumeric,
  sortFn_basic,
  tableFeatures,
  useTable,
} from '@tanstack/react-table';
import type { ReactNode } from 'react';
import classes from './DataTable.module.css';

const features = tableFeatures({
  columnFilteringFeature,
  globalFilteringFeature,
  rowSortingFeature,
  filteredRowModel: createFilteredRowModel(),
  sortedRowModel: createSortedRowModel(),
  filterFns: { includesString: filterFn_includesString },
  sortFns: { alphanumeric: sortFn_alphanumeric, basic: sortFn_basic },
});

/** A column of a {@link DataTable}; `enableSorting: false` for one that cannot be sorted by. */
export type Column<T extends RowData> = ColumnDef<typeof features, T>;

interface DataTableProps<T extends RowData> {
  /** Accessible name of the table. */
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly rowId: (row: T) => string;
  /** Rows that have none of this text in any column are left out. */
  readonly filter?: string;
  /** Shown instead of rows when there are none. */
  readonly empty: ReactNode;
  /** Columns sorted by at first. */
  readonly sortedBy?: { readonly id: string; readonly desc: boolean };
}

/**
 * A table whose columns can be sorted by. On narrow screens each row becomes a card whose cells carry their column's
 * name, so that nothing has to be scrolled sideways.
 */
export function DataTable<T extends RowData>(props: DataTableProps<T>) {
  const { label, columns, rows, rowId, filter = '', empty, sortedBy } = props;
  const table = useTable(
    {
      features,
      columns: columns as Column<T>[],
      data: rows as T[],
      getRowId: rowId,
      globalFilterFn: 'includesString',
      state: { globalFilter: filter },
      initialState: { sorting: sortedBy === undefined ? [] : [sortedBy] },
    },
    ({ sorting, globalFilter }) => ({ sorting, globalFilter }),
  );
  const shownRows = table.getRowModel().rows;
  return (
    <>
      <Table className={classes.table} aria-label={label} verticalSpacing="xs" highlightOnHover>
        <Table.Thead>
          {table.getHeaderGroups().map((group) => (
            <Table.Tr key={group.id}>
              {group.headers.map((header) => {
                const sorted = header.column.getIsSorted();
                const content = <table.FlexRender header={header} />;
                return (
                  <Table.Th key={header.id} scope="col" aria-sort={ariaSort(sorted)}>
                    {header.column.getCanSort() ? (
                      <UnstyledButton className={classes.sort} onClick={header.column.getToggleSortingHandler()}>
                        <Group gap={4} wrap="nowrap">
                          {content}
                          <SortIcon sorted={sorted} />
                        </Group>
                      </UnstyledButton>
                    ) : (
                      content
                    )}
                  </Table.Th>
                );
              })}
            </Table.Tr>
          ))}
        </Table.Thead>
        <Table.Tbody>
          {shownRows.map((row) => (
            <Table.Tr key={row.id}>
              {row.getAllCells().map((cell) => (
                <Table.Td key={cell.id} data-label={columnName(cell.column.columnDef.header)}>
                  <table.FlexRender cell={cell} />
                </Table.Td>
              ))}
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {shownRows.length === 0 && empty}
    </>
  );
}

function SortIcon({ sorted }: { readonly sorted: false | 'asc' | 'desc' }) {
  const Icon = sorted === 'asc' ? IconArrowUp : sorted === 'desc' ? IconArrowDown : IconArrowsSort;
  return <Icon size={14} aria-hidden className={sorted === false ? classes.faint : undefined} />;
}

function ariaSort(sorted: false | 'asc' | 'desc'): 'ascending' | 'descending' | 'none' {
  return sorted === 'asc' ? 'ascending' : sorted === 'desc' ? 'descending' : 'none';
}

function columnName(header: unknown): string {
  return typeof header === 'string' ? header : '';
}
