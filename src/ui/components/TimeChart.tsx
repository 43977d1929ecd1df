import { useElementSize } from '@mantine/hooks';
import { memo, type PointerEvent, useId, useState } from 'react';
import { areaPath, type ChartLine, linePath, type Places, stacked, ticksOf } from './chartPaths.ts';
import classes from './TimeChart.module.css';
import { useTimeZone } from './time.tsx';
import { clockText, dateTimeText } from './zonedTime.ts';

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
