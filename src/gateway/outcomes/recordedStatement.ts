import { LRUCache } from 'lru-cache';
import { headerValue, headerValues, type RawHeaders } from '../../model/http.ts';
import type { ProductNames } from '../../model/names.ts';
import { v2Body } from '../../sql/analyzeRequest.ts';
import { preparedStatements } from '../../sql/preparedStatements.ts';
import { requestDigests, type StatementDigests, shapeText, statementLabels } from '../../sql/statementDigests.ts';
import type { StatementColumns, StatementFacts } from '../../store/queryOutcome.ts';
import type { BodyStart } from '../bodies/requestBodies.ts';

const MAX_SHAPE_TEXT = 10_000;
/** Bytes of prepared statements that are decoded for an EXECUTE. */
const MAX_PREPARED_BYTES = 1 << 20;
/** Bytes of the statement that an EXECUTE runs, and characters of header values, that are stored for a replay. */
const MAX_RESOLVED_BYTES = 262_144;
const MAX_HEADER_CHARACTERS = 16_384;

/** Headers that a replay needs. Never `Extra-Credential`, nor `Prepared-Statement`: the statement that it names is stored. */
const REPLAYED = ['Catalog', 'Schema', 'Session', 'Role', 'Time-Zone', 'Path', 'Client-Capabilities'] as const;
/** Values of session properties with such names are not stored. */
const SECRET_PROPERTY = /[^,]*(?:passw|secret|token|credential|private|api-?_?key)[^,=]*=[^,]*/gi;

/** Text as it may be stored: redacted, and cut to a number of bytes. */
export type FitText = (text: string, bytes: number) => string;

/** Computes the digests of the statement in the body of a submission. */
export function digestsOfBody(
  body: { readonly text: string },
  headers: RawHeaders,
  names: ProductNames,
): StatementDigests {
  const v2 = v2Body(body.text);
  const prepared = v2?.preparedStatements ?? {
    get: (name: string) => {
      const lines = headerValues(headers, names.headerKey('Prepared-Statement'));
      return preparedStatements(lines, MAX_PREPARED_BYTES).statements?.get(name);
    },
  };
  return requestDigests(v2?.query ?? body.text, prepared);
}

/** Digests and facts of recorded statements. */
export class RecordedStatements {
  readonly #names: ProductNames;
  readonly #fitText: FitText;
  /** Shapes with a text that was written lately: it is written again after some hours, which renews the time of its last use. */
  readonly #shapes: LRUCache<string, true>;
  readonly #statements = new WeakMap<BodyStart, RecordedStatement>();

  constructor(names: ProductNames, fitText: FitText) {
    this.#names = names;
    this.#fitText = fitText;
    this.#shapes = new LRUCache({ max: 20_000, ttl: 6 * 3_600_000 });
  }

  /** Returns the statement of a submission; equal for all records of it. */
  of(body: BodyStart, headers: RawHeaders): StatementFacts {
    let statement = this.#statements.get(body);
    if (statement === undefined) {
      statement = new RecordedStatement((storedText) => this.#read(body, headers, storedText));
      this.#statements.set(body, statement);
    }
    return statement;
  }

  #read(body: BodyStart, headers: RawHeaders, storedText: string | null): StatementColumns {
    const digests = digestsOfBody(body, headers, this.#names);
    const source = headerValue(headers, this.#names.headerKey('Source'));
    const labels = statementLabels(digests.text, source);
    const isKnown = this.#shapes.has(digests.shape);
    if (!isKnown) this.#shapes.set(digests.shape, true);
    return {
      ...{ digest: digests.shape, exactDigest: digests.exact },
      ...{ tool: labels?.tool ?? null, model: labels?.model ?? null, dashboard: labels?.dashboard ?? null },
      shapeText: isKnown ? null : this.#fitText(shapeText(digests.text, MAX_SHAPE_TEXT), 4 * MAX_SHAPE_TEXT),
      replay: this.#replay(body, headers, digests.isResolved ? digests.text : null, storedText),
    };
  }

  /** Inputs of a replay in addition to the text, as JSON. */
  #replay(body: BodyStart, headers: RawHeaders, resolved: string | null, storedText: string | null): string {
    const values: Record<string, string> = {};
    let isCut = !body.complete;
    let isRedacted = false;
    const note = (whole: string, stored: string): void => {
      if (stored === whole) return;
      if (whole.startsWith(stored)) isCut = true;
      else isRedacted = true;
    };
    for (const name of REPLAYED) {
      const value = headerValue(headers, this.#names.headerKey(name));
      if (value === null) continue;
      const redacted = value.replace(SECRET_PROPERTY, (pair) => `${pair.slice(0, pair.indexOf('='))}=***`);
      values[name] = this.#fitText(redacted, MAX_HEADER_CHARACTERS);
      note(value, values[name]);
    }
    const statement = resolved === null ? null : this.#fitText(resolved, MAX_RESOLVED_BYTES);
    if (resolved !== null && statement !== null) note(resolved, statement);
    note(body.text, storedText ?? body.text);
    const complete = isRedacted ? 'redacted' : isCut ? 'cut' : 'yes';
    return JSON.stringify({ complete, headers: values, ...(statement !== null && { statement }) });
  }
}

/** Computes its columns when the first record of it is written, off the path of requests, and releases the text then. */
class RecordedStatement implements StatementFacts {
  #read: ((storedText: string | null) => StatementColumns) | null;
  #storedText: string | null = null;
  #columns: StatementColumns | null = null;

  constructor(read: (storedText: string | null) => StatementColumns) {
    this.#read = read;
  }

  noteStored(text: string): void {
    this.#storedText = text;
  }

  get columns(): StatementColumns {
    if (this.#read !== null) this.#columns = this.#read(this.#storedText);
    this.#read = null;
    return this.#columns as StatementColumns;
  }

  toJSON() {
    return { columns: this.columns };
  }
}
