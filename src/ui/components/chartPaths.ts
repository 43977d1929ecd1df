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
export function ticksOf(highest: number): number[] {
  if (!(highest > 0)) return [0, 1];
  const power = 10 ** Math.floor(Math.log10(highest / 4));
  const step = (steps.find((each) => each * power * 4 >= highest) ?? 10) * power;
  const count = Math.ceil(highest / step - 1e-9);
  // Products of binary fractions have long ends.
  return Array.from({ length: count + 1 }, (_, index) => Number((index * step).toPrecision(6)));
}

/** Stacks lines: returns the lower and upper edge of each by interval. */
export function stacked(
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
export interface Places {
  /** Left edge of an interval; for the index after the last, its end. */
  readonly x: (index: number) => number;
  readonly y: (value: number) => number;
}

/** The outline of an area between two edges, each interval a step, as data of an SVG path. */
export function areaPath(low: readonly number[], high: readonly number[], { x, y }: Places): string {
  if (high.length === 0) return '';
  const upper = high.map((value, index) => `${fixed(y(value))}H${fixed(x(index + 1))}`).join('V');
  const lower = low.map((value, index) => `${fixed(y(value))}H${fixed(x(index))}`);
  return `M${fixed(x(0))} ${upper}V${lower.reverse().join('V')}Z`;
}

/** A line through the middles of the intervals with a value, as data of an SVG path. */
export function linePath(values: readonly (number | null)[], { x, y }: Places): string {
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
