import { Group, Table, UnstyledButton } from '@mantine/core';
import { IconArrowDown, IconArrowsSort, IconArrowUp } from '@tabler/icons-react';
import { useWindowVirtualizer } from '@tanstack/react-virtual';
import { memo, type ReactNode, type Ref, useDeferredValue, useLayoutEffect, useMemo, useRef, useState } from 'react';
import { useAddressState } from './addressState.ts';
import classes from './DataTable.module.css';
import { useStableFocus } from './focus.ts';
import { EmptyState } from './frame.tsx';

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

interface DataTableProps<T> {
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly rowId: (row: T) => string;
  readonly filter?: string;
  /** A text is shown as an empty state. */
  readonly empty: ReactNode;
  /** Initial sorting: the id of a column, or `-id` for descending order. */
  readonly sortedBy?: string;
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
export function DataTable<T>(props: DataTableProps<T>) {
  const { label, columns, rows, rowId, filter = '', empty, sortedBy = '', sortIn = 'sort' } = props;
  const [sorting, setSorting] = useAddressState(sortIn, sortedBy);
  // Typing stays responsive while thousands of rows are filtered.
  const wanted = useDeferredValue(filter);
  const shown = useMemo(() => visibleRows(rows, columns, wanted, sorting), [rows, columns, wanted, sorting]);
  const isLong = shown.length > FEW_ROWS;
  const [head, widths] = useColumnWidths(isLong);
  const focus = useStableFocus<HTMLTableElement>();
  return (
    <>
      <Table
        {...focus}
        className={classes.table}
        aria-label={label}
        verticalSpacing="xs"
        highlightOnHover
        {...(widths === null ? {} : { layout: 'fixed' as const })}
        {...(isLong ? { 'aria-rowcount': shown.length + 1 } : {})}
      >
        {widths !== null && (
          <colgroup>
            {columns.map(({ id }, index) => (
              <col key={id} style={{ width: widths[index] }} />
            ))}
          </colgroup>
        )}
        <Table.Thead ref={head}>
          <Table.Tr {...(isLong ? { 'aria-rowindex': 1 } : {})}>
            {columns.map((column) => (
              <Head key={column.id} column={column} first={shown[0]} sorting={sorting} onSort={setSorting} />
            ))}
          </Table.Tr>
        </Table.Thead>
        {isLong ? (
          <VisibleRows {...{ rows: shown, rowId, columns }} />
        ) : (
          <Table.Tbody>
            {shown.map((row) => (
              <MemoRow key={rowId(row)} row={row} columns={columns} index={null} place={null} />
            ))}
          </Table.Tbody>
        )}
      </Table>
      {shown.length === 0 && (typeof empty === 'string' ? <EmptyState title={empty} /> : empty)}
    </>
  );
}

const { compare } = new Intl.Collator('en', { numeric: true });

function visibleRows<T>(rows: readonly T[], columns: readonly Column<T>[], filter: string, sorting: string) {
  const wanted = filter.toLowerCase();
  const matches = rows.filter((row) =>
    columns.some(({ value }) => value !== undefined && String(value(row)).toLowerCase().includes(wanted)),
  );
  const { value } = columns.find(({ id }) => sorting === id || sorting === `-${id}`) ?? {};
  if (value === undefined) return wanted === '' ? rows : matches;
  const sign = sorting.startsWith('-') ? -1 : 1;
  return matches.toSorted((one, other) => {
    const [a, b] = [value(one), value(other)];
    return sign * (typeof a === 'number' && typeof b === 'number' ? a - b : compare(String(a), String(b)));
  });
}

interface HeadProps<T> {
  readonly column: Column<T>;
  readonly first: T | undefined;
  readonly sorting: string;
  readonly onSort: (sorting: string) => void;
}

/** A column's name; a click sorts: texts first ascending, numbers first descending, then the other way, then not. */
function Head<T>({ column: { id, header, value, isSortable }, first, sorting, onSort }: HeadProps<T>) {
  const [Icon, sorted] =
    sorting === id
      ? [IconArrowUp, 'ascending' as const]
      : sorting === `-${id}`
        ? [IconArrowDown, 'descending' as const]
        : [IconArrowsSort, 'none' as const];
  const isText = first !== undefined && typeof value?.(first) === 'string';
  const order = isText ? ['', id, `-${id}`, ''] : ['', `-${id}`, id, ''];
  const next = order[order.indexOf(sorted === 'none' ? '' : sorting) + 1] ?? '';
  return (
    <Table.Th scope="col" aria-sort={sorted}>
      {value !== undefined && isSortable !== false ? (
        <UnstyledButton className={classes.sort} onClick={() => onSort(next)}>
          <Group gap={4} wrap="nowrap">
            {header}
            <Icon size={14} aria-hidden className={sorted === 'none' ? classes.faint : undefined} />
          </Group>
        </UnstyledButton>
      ) : (
        header
      )}
    </Table.Th>
  );
}

type VisibleRowsProps<T> = Pick<DataTableProps<T>, 'rows' | 'rowId' | 'columns'>;

/** The visible rows, with space for the others before and after them. */
function VisibleRows<T>({ rows, rowId, columns }: VisibleRowsProps<T>) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [top, setTop] = useState(0);
  const virtualizer = useWindowVirtualizer<HTMLTableRowElement>({
    count: rows.length,
    estimateSize: () => USUAL_HEIGHT,
    overscan: OVERSCAN,
    getItemKey: (index) => (index in rows ? rowId(rows[index] as T) : index),
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
    <>
      <tbody ref={body} aria-hidden className={classes.room}>
        <tr style={{ height: before }}>
          <td colSpan={columns.length} style={{ height: before }} />
        </tr>
      </tbody>
      <Table.Tbody>
        {items.map(({ key, index }) => {
          const row = rows[index];
          if (row === undefined) return null;
          return <MemoRow key={String(key)} {...{ row, columns, index }} place={virtualizer.measureElement} />;
        })}
      </Table.Tbody>
      <tbody aria-hidden className={classes.room}>
        <tr style={{ height: Math.max(after, 0) }}>
          <td colSpan={columns.length} style={{ height: Math.max(after, 0) }} />
        </tr>
      </tbody>
    </>
  );
}

interface DataRowProps<T> {
  readonly row: T;
  readonly columns: readonly Column<T>[];
  /** Index among all rows if only some are rendered, else null. */
  readonly index: number | null;
  /** Measures the row's height. */
  readonly place: Ref<HTMLTableRowElement> | null;
}

const MemoRow = memo(function DataRow<T>({ row, columns, index, place }: DataRowProps<T>) {
  return (
    <Table.Tr ref={place} {...(index === null ? {} : { 'data-index': index, 'aria-rowindex': index + 2 })}>
      {columns.map(({ id, header, value, cell }) => (
        <Table.Td key={id} data-label={header}>
          {cell === undefined ? value?.(row) : cell(row)}
        </Table.Td>
      ))}
    </Table.Tr>
  );
}) as <T>(props: DataRowProps<T>) => ReactNode;

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
