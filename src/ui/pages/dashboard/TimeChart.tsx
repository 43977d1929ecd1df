import { useElementSize } from '@mantine/hooks';
import { memo, type PointerEvent, useId, useState } from 'react';
import { useTimeZone } from '../../components/time.tsx';
import { clockText, dateTimeText } from '../../components/zonedTime.ts';
import classes from './TimeChart.module.css';

interface TimeChartProps {
  /** Description for screen readers. */
  readonly label: string;
  /** Start of the first interval, milliseconds since 1970. */
  readonly from: number;
  readonly intervalMs: number;
  readonly lines: readonly ChartLine[];
  readonly isStacked?: boolean;
  readonly valueText: (value: number) => string;
}

const HEIGHT = 220;
const LEFT = 52;
const RIGHT = 10;
const TOP = 10;
const BOTTOM = 24;
const TICK_WIDTH = 90;
const DAY_MS = 86_400_000;

/**
 * Values over time by interval, in few SVG paths, so that hundreds of values are cheap to draw. The last interval is
 * incomplete, and is marked.
 */
export const TimeChart = memo(function TimeChart({
  label,
  from,
  intervalMs,
  lines,
  isStacked = false,
  valueText,
}: TimeChartProps) {
  const { timeZone } = useTimeZone();
  const { ref, width } = useElementSize();
  const [index, setIndex] = useState<number | null>(null);
  const length = lines[0]?.values.length ?? 0;
  const inner = Math.max(0, width - LEFT - RIGHT);
  const point = ({ clientX, currentTarget }: PointerEvent<SVGElement>) => {
    const x = clientX - currentTarget.getBoundingClientRect().left - LEFT;
    const at = Math.floor((x / inner) * length);
    setIndex(at >= 0 && at < length ? at : null);
  };
  const start = from + (index ?? 0) * intervalMs;
  const x = LEFT + ((index ?? 0) * inner) / Math.max(1, length);
  return (
    <div className={classes.chart}>
      <div ref={ref} className={classes.frame} role="img" aria-label={label}>
        {width > 0 && (
          <svg
            width={width}
            height={HEIGHT}
            aria-hidden
            onPointerMove={point}
            onPointerDown={point}
            onPointerLeave={() => setIndex(null)}
          >
            <Picture {...{ from, intervalMs, lines, isStacked, valueText, timeZone, inner, length }} />
            {index !== null && (
              <rect x={x} y={TOP} width={inner / length} height={HEIGHT - TOP - BOTTOM} className={classes.pointed} />
            )}
          </svg>
        )}
        {index !== null && (
          <div
            className={classes.values}
            style={x > width / 2 ? { right: width - x + 8 } : { left: x + inner / length + 8 }}
          >
            <b>
              {dateTimeText(start, timeZone)}
              {index === length - 1 && ', not over yet'}
            </b>
            {lines.map(({ name, color, isDashed, values }) => {
              const value = values[index] ?? null;
              return (
                <span key={name}>
                  <Swatch color={color} isDashed={isDashed} /> {name}: {value === null ? '–' : valueText(value)}
                </span>
              );
            })}
          </div>
        )}
      </div>
      <ul className={classes.legend}>
        {lines.map(({ name, color, isDashed }) => (
          <li key={name}>
            <Swatch color={color} isDashed={isDashed} /> {name}
          </li>
        ))}
        <li>
          <svg width={14} height={14} aria-hidden className={classes.swatch}>
            <rect width={14} height={14} className={classes.open} />
            <path d="M-2 16L16 -2M-2 8L8 -2M6 16L16 6" className={classes.hatch} />
          </svg>{' '}
          not over yet
        </li>
      </ul>
    </div>
  );
});

interface PictureProps extends Required<Omit<TimeChartProps, 'label'>> {
  readonly timeZone: string;
  readonly inner: number;
  readonly length: number;
}

const Picture = memo(function Picture(props: PictureProps) {
  const { from, intervalMs, lines, isStacked, valueText, timeZone, inner, length } = props;
  const hatch = useId();
  const edges = isStacked ? stacked(lines) : null;
  const ticks = ticksOf(highestOf(edges?.at(-1)?.high ?? lines.flatMap(({ values }) => values)));
  const top = ticks.at(-1) ?? 1;
  const bottom = HEIGHT - BOTTOM;
  const places: Places = {
    x: (index) => LEFT + (index * inner) / Math.max(1, length),
    y: (value) => bottom - (value / top) * (bottom - TOP),
  };
  const paths =
    edges === null
      ? lines.map(({ values }) => linePath(values, places))
      : edges.map(({ low, high }) => areaPath(low, high, places));
  const isLong = length * intervalMs > DAY_MS;
  const timeText = (at: number) => (isLong ? dateTimeText(at, timeZone).slice(5, 16) : clockText(at, timeZone));
  const every = Math.max(1, Math.ceil((length * TICK_WIDTH) / Math.max(1, inner)));
  const times = Array.from({ length: Math.floor((length - 1) / every) + 1 }, (_, index) => index * every);
  const openX = places.x(length - 1);
  return (
    <>
      <pattern id={hatch} width={8} height={8} patternUnits="userSpaceOnUse">
        <path d="M-2 10L10 -2" className={classes.hatch} />
      </pattern>
      {ticks.map((value) => (
        <g key={value}>
          <line x1={LEFT} x2={LEFT + inner} y1={places.y(value)} y2={places.y(value)} className={classes.line} />
          <text x={LEFT - 6} y={places.y(value) + 4} textAnchor="end" className={classes.text}>
            {valueText(value)}
          </text>
        </g>
      ))}
      {times.map((index) => (
        <text key={index} x={places.x(index)} y={HEIGHT - 6} className={classes.text}>
          {timeText(from + index * intervalMs)}
        </text>
      ))}
      {lines.map(({ name, color, isDashed }, index) => (
        <path
          key={name}
          d={paths[index]}
          fill={isStacked ? color : 'none'}
          fillOpacity={isDashed ? 0.35 : 0.7}
          stroke={color}
          strokeWidth={isStacked ? 0.75 : 2}
          strokeDasharray={isDashed ? '5 3' : undefined}
        />
      ))}
      {length > 0 && (
        <g>
          <rect x={openX} y={TOP} width={inner / length} height={bottom - TOP} className={classes.open} />
          <rect x={openX} y={TOP} width={inner / length} height={bottom - TOP} fill={`url(#${hatch})`} />
        </g>
      )}
    </>
  );
});

function Swatch({ color, isDashed }: Pick<ChartLine, 'color' | 'isDashed'>) {
  return (
    <svg width={14} height={14} aria-hidden className={classes.swatch}>
      {isDashed ? (
        <path d="M0 7H14" stroke={color} strokeWidth={3} strokeDasharray="4 2" />
      ) : (
        <rect width={14} height={14} rx={2} fill={color} />
      )}
    </svg>
  );
}

function highestOf(values: readonly (number | null)[]): number {
  return values.reduce((highest: number, value) => Math.max(highest, value ?? 0), 0);
}

export interface ChartLine {
  readonly name: string;
  readonly color: string;
  readonly isDashed: boolean;
  /** By interval; null without a value. */
  readonly values: readonly (number | null)[];
}

/** Steps of a scale, times powers of ten. */
const steps = [1, 2, 5, 10];

/** Values of the lines of a scale from 0: at most five, the last one not below the highest value. */
function ticksOf(highest: number): number[] {
  if (!(highest > 0)) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(highest / 4));
  const step = (steps.find((each) => each * power * 4 >= highest) ?? 10) * power;
  const count = Math.ceil(highest / step - 1e-9);
  // Products of binary fractions have long ends.
  return Array.from({ length: count + 1 }, (_, index) => Number((index * step).toPrecision(6)));
}

/** Stacks lines: returns the lower and upper edge of each by interval. */
function stacked(
  lines: readonly ChartLine[],
): readonly { readonly low: readonly number[]; readonly high: readonly number[] }[] {
  let below: readonly number[] = lines[0]?.values.map(() => 0) ?? [];
  return lines.map(({ values }) => {
    const low = below;
    const high = values.map((value, index) => (low[index] ?? 0) + (value ?? 0));
    below = high;
    return { low, high };
  });
}

/** Functions that convert values to positions in the picture. */
interface Places {
  /** Left edge of an interval; for the index after the last, its end. */
  readonly x: (index: number) => number;
  readonly y: (value: number) => number;
}

/** The outline of an area between two edges, each interval a step, as data of an SVG path. */
function areaPath(low: readonly number[], high: readonly number[], { x, y }: Places): string {
  if (high.length === 0) return '';
  const upper = high.map((value, index) => `${fixed(y(value))}H${fixed(x(index + 1))}`).join('V');
  const lower = low.map((value, index) => `${fixed(y(value))}H${fixed(x(index))}`);
  return `M${fixed(x(0))} ${upper}V${lower.reverse().join('V')}Z`;
}

/** A line through the middles of the intervals with a value, as data of an SVG path. */
function linePath(values: readonly (number | null)[], { x, y }: Places): string {
  let path = '';
  let isOpen = false;
  for (const [index, value] of values.entries()) {
    if (value === null) {
      isOpen = false;
      continue;
    }
    const [left, right, top] = [x(index), x(index + 1), fixed(y(value))];
    const middle = fixed((left + right) / 2);
    const isAlone: boolean = !isOpen && (values[index + 1] ?? null) === null;
    // A single value between gaps is a short stroke, as a line needs two.
    if (isAlone) path += `M${fixed(left)} ${top}H${fixed(right)}`;
    else path += `${isOpen ? 'L' : 'M'}${middle} ${top}`;
    isOpen = !isAlone;
  }
  return path;
}

function fixed(value: number): string {
  return String(Math.round(value * 10) / 10);
}
