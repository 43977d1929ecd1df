/** A column of a result, as the statement protocol names it. */
export interface ResultColumn {
  readonly name: string;
  /** Such as `decimal(12,2)`. */
  readonly type: string;
}

/** Sums of a column of floating-point numbers: nearly equal for equal numbers in any order. */
interface NumberSums {
  sum: number;
  /** Sum with weights that depend on the other columns of a row. */
  weighted: number;
  /** Sum of absolute values. */
  magnitude: number;
}

/** Digest of the rows of a result: equal for the same rows in any order (docs/replay.md#comparison). */
export interface ResultDigest {
  readonly columns: readonly ResultColumn[];
  readonly rows: number;
  /** Sum of the hashes of each column's values; of floating-point numbers, of their kinds (NaN, infinite, finite). */
  readonly sums: readonly string[];
  /** By column; null: it has no floating-point numbers. */
  readonly numbers: readonly (NumberSums | null)[];
  /** Sum of the hashes of rows, without floating-point numbers. */
  readonly rowSum: string;
  /** Hash of the rows in their order, without floating-point numbers. */
  readonly sequence: string;
}

/** Difference of a number that counts as equal, as a part of it; in a sum such differences cancel out in part. */
const TOLERANCES = { double: 1e-10, real: 2e-5 } as const;
/** Significant digits of floating-point numbers in arrays, maps and rows. */
const DIGITS = { double: 10, real: 5 } as const;
/** Factor of numbers in sums, so that sums of the greatest doubles are finite in any order. */
const SCALE = 2 ** -64;
const PRIMES = [0x01000193, 0x85ebca6b] as const;

/** Type of a column's floating-point numbers; null: its values are exact. */
function precisionOf({ type }: ResultColumn): 'double' | 'real' | null {
  return /\breal\b/i.test(type) ? 'real' : /\bdouble\b/i.test(type) ? 'double' : null;
}

const isNumber = ({ type }: ResultColumn): boolean => /^(?:double|real)$/i.test(type);

/** Two 32-bit hashes of a text (FNV-1a with two primes). */
class Lanes {
  a = 0;
  b = 0;

  /** Hashes a text, from the state of another hash. */
  hash(text: string, a = 0x811c9dc5, b = 0x9747b28c): this {
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at);
      a = Math.imul(a ^ code, PRIMES[0]);
      b = Math.imul(b ^ code, PRIMES[1]);
    }
    this.a = a ^ (a >>> 15);
    this.b = b ^ (b >>> 13);
    return this;
  }

  add({ a, b }: Lanes): void {
    this.a = (this.a + a) | 0;
    this.b = (this.b + b) | 0;
  }

  get text(): string {
    return [this.a, this.b].map((lane) => (lane >>> 0).toString(16).padStart(8, '0')).join('');
  }
}

/** Folds the rows of a result into a `ResultDigest`, page by page. It stores no row. */
export class ResultFold {
  readonly #columns: readonly ResultColumn[];
  readonly #digits: readonly (number | null)[];
  readonly #sums: readonly Lanes[];
  readonly #numbers: readonly (NumberSums | null)[];
  readonly #rowSum = new Lanes();
  readonly #sequence = new Lanes().hash('');
  readonly #value = new Lanes();
  readonly #row = new Lanes();
  rows = 0;

  constructor(columns: readonly ResultColumn[]) {
    this.#columns = columns;
    this.#digits = columns.map(precisionOf).map((precision) => precision && DIGITS[precision]);
    this.#sums = columns.map(() => new Lanes());
    this.#numbers = columns.map((column) => (isNumber(column) ? { sum: 0, weighted: 0, magnitude: 0 } : null));
  }

  add(rows: readonly (readonly unknown[])[]): void {
    for (const row of rows) {
      this.rows += 1;
      this.#row.hash('');
      for (let index = 0; index < this.#columns.length; index++) {
        const digits = this.#digits[index] ?? null;
        const isFiniteNumber = this.#numbers[index] !== null && typeof row[index] === 'number';
        const text = isFiniteNumber ? 'finite' : valueText(row[index], digits);
        (this.#sums[index] as Lanes).add(this.#value.hash(text));
        if (digits === null) this.#row.hash(`${text}\u0001`, this.#row.a, this.#row.b);
      }
      const weight = 0.5 + (this.#row.a >>> 0) / 2 ** 32;
      for (let index = 0; index < this.#columns.length; index++) {
        const sums = this.#numbers[index];
        const value = row[index];
        if (sums == null || typeof value !== 'number') continue;
        const part = value * SCALE;
        sums.sum += part;
        sums.weighted += part * weight;
        sums.magnitude += Math.abs(part);
      }
      this.#rowSum.add(this.#row);
      this.#sequence.hash(this.#row.text, this.#sequence.a, this.#sequence.b);
    }
  }

  digest(): ResultDigest {
    return {
      ...{ columns: this.#columns, rows: this.rows, sums: this.#sums.map(({ text }) => text) },
      ...{ numbers: this.#numbers, rowSum: this.#rowSum.text, sequence: this.#sequence.text },
    };
  }
}

/**
 * Writes a value so that equal values have equal texts: names of maps are sorted, floating-point numbers are rounded.
 * @param digits significant digits of numbers; null: they are exact
 */
function valueText(value: unknown, digits: number | null): string {
  if (value === null || value === undefined) return 'n';
  if (typeof value === 'string') return `s${value.length}:${value}`;
  // Both zeros are equal in SQL.
  if (typeof value === 'number') return String(digits === null ? value : Number(value.toPrecision(digits)) || 0);
  if (Array.isArray(value)) return `[${value.map((each) => valueText(each, digits)).join(',')}]`;
  if (typeof value === 'object') {
    const entries = Object.entries(value).map(([name, each]) => `${valueText(name, null)}=${valueText(each, digits)}`);
    return `{${entries.sort().join(',')}}`;
  }
  return String(value);
}

/** Difference of two results. */
export interface ResultDifference {
  readonly kind: 'columns' | 'rows' | 'values' | 'order';
  /** A sentence for users. */
  readonly reason: string;
}

/**
 * Compares two results; null: no difference.
 * @param isOrdered true if the statement has ORDER BY at its top level
 */
export function compareResults(one: ResultDigest, other: ResultDigest, isOrdered: boolean): ResultDifference | null {
  const columns = [one, other].map((each) => each.columns.map(({ name, type }) => `${name} ${type}`).join(', '));
  if (columns[0] !== columns[1]) {
    return { kind: 'columns', reason: `the columns are (${columns[0]}) and (${columns[1]})` };
  }
  if (one.rows !== other.rows) return { kind: 'rows', reason: `${one.rows} and ${other.rows} rows` };
  const differing = one.columns.filter((column, index) => {
    const numbers = [one, other].map((each) => each.numbers[index]);
    return (
      one.sums[index] !== other.sums[index] ||
      !areNear(numbers, TOLERANCES[precisionOf(column) ?? 'double'] / Math.sqrt(one.rows))
    );
  });
  if (differing.length > 0) {
    const names = differing.slice(0, 5).map(({ name }) => name);
    const more = differing.length > names.length ? ` and ${differing.length - names.length} more` : '';
    return { kind: 'values', reason: `other values in ${names.join(', ')}${more}` };
  }
  if (one.rowSum !== other.rowSum) {
    return { kind: 'values', reason: 'the same values of each column stand in other rows' };
  }
  if (isOrdered && one.sequence !== other.sequence) return { kind: 'order', reason: 'the same rows in another order' };
  return null;
}

function areNear([one, other]: readonly (NumberSums | null | undefined)[], tolerance: number): boolean {
  if (one == null || other == null) return true;
  const isNear = (a: number, b: number) => a === b || Math.abs(a - b) <= tolerance * one.magnitude;
  return isNear(one.sum, other.sum) && isNear(one.weighted, other.weighted) && isNear(one.magnitude, other.magnitude);
}
