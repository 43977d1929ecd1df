import { Group, Table, UnstyledButton } from '@mantine/core';
import { IconArrowDown, IconArrowsSort, IconArrowUp } from '@tabler/icons-react';
import {
  type ColumnDef,
  columnFilteringFeature,
  createFilteredRowModel,
  createSortedRowModel,
  FlexRender,
  filterFn_includesString,
  globalFilteringFeature,
  type Row,
  type RowData,
  rowSortingFeature,
  sortFn_alphanumeric,
  sortFn_basic,
  tableFeatures,
  useTable,
} from '@tanstack/react-table';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import {
  Fragment,
  memo,
  type ReactNode,
  type Ref,
  useDeferredValue,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import { sortingOf, sortingText, useAddressState } from './addressState.ts';
import classes from './DataTable.module.css';
import { useKeptFocus } from './keptFocus.ts';

const features = tableFeatures({
  columnFilteringFeature,
  globalFilteringFeature,
  rowSortingFeature,
  filteredRowModel: createFilteredRowModel(),
  sortedRowModel: createSortedRowModel(),
  filterFns: { includesString: filterFn_includesString },
  sortFns: { alphanumeric: sortFn_alphanumeric, basic: sortFn_basic },
});

/** Above this number, only visible rows are rendered. */
const FEW_ROWS = 100;
/** Rendered rows beyond each edge of the visible ones. */
const OVERSCAN = 8;
/** Estimated height of a row before it is measured, in pixels. */
const USUAL_HEIGHT = 60;
/** Narrower than this, rows are cards (DataTable.module.css), and columns have no widths. */
const WIDE = '(min-width: 48rem)';

/** A column of a {@link DataTable}. */
export interface Column<T> {
  readonly id: string;
  readonly header: string;
  /** Sorted and filtered by. A column without it is neither. */
  readonly value?: (row: T) => string | number;
  /** Default: the value. */
  readonly cell?: (row: T) => ReactNode;
  /** False: the value only serves the filter. */
  readonly isSortable?: false;
}

type Definition<T extends RowData> = ColumnDef<typeof features, T>;

/** Parts of a column that the library needs. */
function definitionOf<T extends RowData>({ id, header, value, cell, isSortable }: Column<T>): Definition<T> {
  return {
    ...{ id, header, enableSorting: value !== undefined && isSortable !== false },
    ...(value === undefined ? {} : { accessorFn: value }),
    ...(cell === undefined ? {} : { cell: ({ row }) => cell(row.original) }),
  };
}

interface DataTableProps<T extends RowData> {
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly rowId: (row: T) => string;
  readonly filter?: string;
  readonly empty: ReactNode;
  readonly sortedBy?: { readonly id: string; readonly desc: boolean };
  /** Name of the address parameter for the sorting. Default: `sort`. */
  readonly sortIn?: string;
}

/**
 * A sortable table. On narrow screens each row becomes a card whose cells carry their column's name, so that there is
 * no horizontal scrolling.
 *
 * Of many rows only visible ones are rendered. A row is rendered again only if its data changed: `columns`, `rowId` and
 * unchanged rows must stay the same objects.
 */
export function DataTable<T extends RowData>(props: DataTableProps<T>) {
  const { label, columns, rows, rowId, filter = '', empty, sortedBy, sortIn = 'sort' } = props;
  const [sorted, setSorted] = useAddressState(sortIn, sortingText(sortedBy === undefined ? [] : [sortedBy]));
  const sorting = useMemo(() => sortingOf(sorted), [sorted]);
  // Typing stays responsive while thousands of rows are filtered.
  const globalFilter = useDeferredValue(filter);
  const definitions = useMemo(() => columns.map(definitionOf), [columns]);
  const table = useTable(
    {
      features,
      columns: definitions,
      data: rows as T[],
      getRowId: rowId,
      globalFilterFn: 'includesString',
      state: { globalFilter, sorting },
      onSortingChange: (change) => setSorted(sortingText(typeof change === 'function' ? change(sorting) : change)),
    },
    (state) => ({ sorting: state.sorting, applied: state.globalFilter }),
  );
  const shownRows = table.getRowModel().rows;
  const isLong = shownRows.length > FEW_ROWS;
  const [head, widths] = useColumnWidths(isLong);
  const groups = table.getHeaderGroups();
  const keptFocus = useKeptFocus<HTMLTableElement>();
  return (
    <>
      <Table
        {...keptFocus}
        className={classes.table}
        aria-label={label}
        verticalSpacing="xs"
        highlightOnHover
        {...(widths === null ? {} : { layout: 'fixed' as const })}
        {...(isLong ? { 'aria-rowcount': shownRows.length + 1 } : {})}
      >
        {widths !== null && (
          <colgroup>
            {columns.map(({ id }, index) => (
              <col key={id} style={{ width: widths[index] }} />
            ))}
          </colgroup>
        )}
        <Table.Thead ref={head}>
          {groups.map((group) => (
            <Table.Tr key={group.id} {...(isLong ? { 'aria-rowindex': 1 } : {})}>
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
        {isLong ? (
          <SeenRows rows={shownRows} columns={columns} />
        ) : (
          <Table.Tbody>
            {shownRows.map((row) => (
              <MemoRow key={row.id} row={row} original={row.original} columns={columns} index={null} place={null} />
            ))}
          </Table.Tbody>
        )}
      </Table>
      {shownRows.length === 0 && empty}
    </>
  );
}

interface SeenRowsProps<T extends RowData> {
  readonly rows: readonly Row<typeof features, T>[];
  readonly columns: readonly Column<T>[];
}

/** The visible rows, with space for the others before and after them. */
function SeenRows<T extends RowData>({ rows, columns }: SeenRowsProps<T>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [top, setTop] = useState(0);
  const virtualizer = useWindowVirtualizer<HTMLTableRowElement>({
    count: rows.length,
    estimateSize: () => USUAL_HEIGHT,
    overscan: OVERSCAN,
    getItemKey: (index) => rows[index]?.id ?? index,
    scrollMargin: top,
  });
  // Content above the table may change its height. Read it together with the layout of the page: a read at each change
  // of the rows would cause a second layout.
  useLayoutEffect(() => {
    const measure = () => {
      const now = Math.round((body.current?.getBoundingClientRect().top ?? 0) + window.scrollY);
      setTop((before) => (Math.abs(before - now) > 1 ? now : before));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(document.body);
    return () => observer.disconnect();
  }, []);
  const items = virtualizer.getVirtualItems();
  const before = (items[0]?.start ?? top) - top;
  const after = virtualizer.getTotalSize() - ((items.at(-1)?.end ?? top) - top);
  return (
    <Fragment>
      <tbody ref={body} aria-hidden className={classes.room}>
        <tr style={{ height: before }}>
          <td colSpan={columns.length} style={{ height: before }} />
        </tr>
      </tbody>
      <Table.Tbody>
        {items.map(({ key, index }) => {
          const row = rows[index];
          if (row === undefined) return null;
          return (
            <MemoRow
              key={String(key)}
              row={row}
              original={row.original}
              columns={columns}
              index={index}
              place={virtualizer.measureElement}
            />
          );
        })}
      </Table.Tbody>
      <tbody aria-hidden className={classes.room}>
        <tr style={{ height: Math.max(after, 0) }}>
          <td colSpan={columns.length} style={{ height: Math.max(after, 0) }} />
        </tr>
      </tbody>
    </Fragment>
  );
}

interface DataRowProps<T extends RowData> {
  readonly row: Row<typeof features, T>;
  readonly original: T;
  readonly columns: readonly Column<T>[];
  /** Index among all rows if only some are rendered, else null. */
  readonly index: number | null;
  /** Measures the row's height. */
  readonly place: Ref<HTMLTableRowElement> | null;
}

function DataRow<T extends RowData>({ row, index, place }: DataRowProps<T>) {
  return (
    <Table.Tr ref={place} {...(index === null ? {} : { 'data-index': index, 'aria-rowindex': index + 2 })}>
      {row.getAllCells().map((cell) => (
        <Table.Td key={cell.id} data-label={cell.column.columnDef.header}>
          <FlexRender cell={cell} />
        </Table.Td>
      ))}
    </Table.Tr>
  );
}

/** Each refetch recreates all rows of the table library; their data is mostly unchanged. */
const MemoRow = memo(
  DataRow,
  (before, after) =>
    before.original === after.original &&
    before.columns === after.columns &&
    before.index === after.index &&
    before.place === after.place,
) as typeof DataRow;

/**
 * Column widths in percent, as the browser chose them for the first rows, so that scrolling does not change them. Null
 * while the browser chooses.
 */
function useColumnWidths(isFixed: boolean): [Ref<HTMLTableSectionElement>, readonly string[] | null] {
  const head = useRef<HTMLTableSectionElement>(null);
  const [widths, setWidths] = useState<readonly string[] | null>(null);
  useLayoutEffect(() => {
    if (!isFixed) setWidths(null);
    else if (widths === null && window.matchMedia(WIDE).matches) {
      const cells = [...(head.current?.querySelectorAll('th') ?? [])].map((cell) => cell.offsetWidth);
      const all = cells.reduce((sum, width) => sum + width, 0);
      if (all > 0) setWidths(cells.map((width) => `${((100 * width) / all).toFixed(2)}%`));
    }
  }, [isFixed, widths]);
  return [head, isFixed ? widths : null];
}

function SortIcon({ sorted }: { readonly sorted: false | 'asc' | 'desc' }) {
  const Icon = sorted === 'asc' ? IconArrowUp : sorted === 'desc' ? IconArrowDown : IconArrowsSort;
  return <Icon size={14} aria-hidden className={sorted === false ? classes.faint : undefined} />;
}

function ariaSort(sorted: false | 'asc' | 'desc'): 'ascending' | 'descending' | 'none' {
  return sorted === 'asc' ? 'ascending' : sorted === 'desc' ? 'descending' : 'none';
}
