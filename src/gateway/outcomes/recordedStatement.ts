import { LRUCache } from 'lru-cache';
import type { HeaderFields } from '../../model/http.ts';
import type { ProductNames } from '../../model/names.ts';
import { v2Body } from '../../sql/analyzeRequest.ts';
import { preparedStatements } from '../../sql/preparedStatements.ts';
import {
  requestDigests,
  type StatementDigests,
  type StatementLabels,
  shapeText,
  statementLabels,
} from '../../sql/statementDigests.ts';
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

/** Characters of a text with cached digests, and of all of these: 800 take the lexer 24 µs, the cache 0.3 µs. */
const MAX_CACHED_TEXT = 4_096;
const MAX_CACHED = 4_000_000;

interface Digested {
  readonly source: string | null;
  readonly digests: StatementDigests;
  readonly labels: StatementLabels | null;
}

/** Computes the digests of the statement in the body of a submission. @param lines of the header Prepared-Statement */
export function digestsOfBody(body: { readonly text: string }, lines: readonly string[] = []): StatementDigests {
  const v2 = v2Body(body.text);
  const prepared = v2?.preparedStatements ?? {
    get: (name: string) => preparedStatements(lines, MAX_PREPARED_BYTES).statements?.get(name),
  };
  return requestDigests(v2?.query ?? body.text, prepared);
}

export class RecordedStatements {
  readonly #sourceKey: string;
  readonly #preparedKey: string;
  readonly #replayedKeys: readonly (readonly [name: string, key: string])[];
  readonly #fitText: FitText;
  /** Shapes with a text that was written lately: after some hours it is written again. */
  readonly #shapes: LRUCache<string, true>;
  readonly #digested = new LRUCache<string, Digested>({
    maxSize: MAX_CACHED,
    sizeCalculation: (_digested, text) => text.length + 1,
  });
  readonly #statements = new WeakMap<BodyStart, RecordedStatement>();

  constructor(names: ProductNames, fitText: FitText) {
    this.#sourceKey = names.headerKey('Source');
    this.#preparedKey = names.headerKey('Prepared-Statement');
    this.#replayedKeys = REPLAYED.map((name) => [name, names.headerKey(name)]);
    this.#fitText = fitText;
    this.#shapes = new LRUCache({ max: 20_000, ttl: 6 * 3_600_000 });
  }

  /** Returns the statement of a submission; equal for all records of it. */
  of(body: BodyStart, fields: HeaderFields): StatementFacts {
    let statement = this.#statements.get(body);
    if (statement === undefined) {
      statement = new RecordedStatement((storedText) => this.#read(body, fields, storedText));
      this.#statements.set(body, statement);
    }
    return statement;
  }

  /** Computes the digest of the shape of the statement in a submission; the history reads it from the cache. */
  digestOf(body: BodyStart, fields: HeaderFields): string {
    const source = fields.get(this.#sourceKey)?.join() ?? null;
    return this.#digest(body, fields, source).digests.shape;
  }

  #read(body: BodyStart, fields: HeaderFields, storedText: string | null): StatementColumns {
    const source = fields.get(this.#sourceKey)?.join() ?? null;
    const cached = fields.has(this.#preparedKey) ? undefined : this.#digested.get(body.text);
    const { digests, labels } = cached?.source === source ? cached : this.#digest(body, fields, source);
    const isKnown = this.#shapes.has(digests.shape);
    if (!isKnown) this.#shapes.set(digests.shape, true);
    return {
      ...{ digest: digests.shape, exactDigest: digests.exact },
      ...{ tool: labels?.tool ?? null, model: labels?.model ?? null, dashboard: labels?.dashboard ?? null },
      shapeText: isKnown ? null : this.#fitText(shapeText(digests.text, MAX_SHAPE_TEXT), 4 * MAX_SHAPE_TEXT),
      replay: this.#replay(body, fields, digests.isResolved ? digests.text : null, storedText),
    };
  }

  #digest(body: BodyStart, fields: HeaderFields, source: string | null): Digested {
    const lines = fields.get(this.#preparedKey);
    const digests = digestsOfBody(body, lines);
    const digested = { source, digests, labels: statementLabels(digests.text, source) };
    const isOfText = lines === undefined && !digests.isResolved;
    if (isOfText && body.text.length <= MAX_CACHED_TEXT) this.#digested.set(body.text, digested);
    return digested;
  }

  /** Inputs of a replay in addition to the text, as JSON. */
  #replay(body: BodyStart, fields: HeaderFields, resolved: string | null, storedText: string | null): string {
    const values: Record<string, string> = {};
    let isCut = !body.complete;
    let isRedacted = false;
    const note = (whole: string, stored: string): void => {
      if (stored === whole) return;
      if (whole.startsWith(stored)) isCut = true;
      else isRedacted = true;
    };
    for (const [name, key] of this.#replayedKeys) {
      const value = fields.get(key)?.join();
      if (value === undefined) continue;
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

  constructor(read: (storedText: string | null) => StatementColumns) {
    this.#read = read;
  }

  noteStored(text: string): void {
    this.#storedText = text;
  }

  get columns(): StatementColumns {
    // Later reads find the property.
    const value = this.#read?.(this.#storedText) as StatementColumns;
    this.#read = null;
    Object.defineProperty(this, 'columns', { value });
    return value;
  }

  toJSON() {
    return { columns: this.columns };
  }
}
