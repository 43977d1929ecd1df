import { LRUCache } from 'lru-cache';
import type { HeaderFields } from '../../model/http.ts';
import type { ProductNames } from '../../model/names.ts';
import { RecentTexts, v2Body } from '../../sql/analyzeRequest.ts';
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

/** Replay data of a whole statement without headers. */
const NOTHING_ELSE = JSON.stringify({ complete: 'yes', headers: {} });

/** Parts of a submission that its columns are computed from. */
interface StatementSource extends Pick<BodyStart, 'text' | 'complete'> {
  readonly source: string | null;
  /** Lines of the header Prepared-Statement. */
  readonly lines: readonly string[] | undefined;
  /** Headers that a replay needs, by name; null for none. */
  readonly headers: Readonly<Record<string, string>> | null;
}

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
  /** Distinguishes texts that come again: a cache of all costs as much as their digests. */
  readonly #texts = new RecentTexts();
  readonly #ofBodies = new WeakMap<BodyStart, RecordedStatement>();
  readonly #digested = new LRUCache<string, Digested>({
    maxSize: MAX_CACHED,
    sizeCalculation: (_digested, text) => text.length + 1,
  });

  constructor(names: ProductNames, fitText: FitText) {
    this.#sourceKey = names.headerKey('Source');
    this.#preparedKey = names.headerKey('Prepared-Statement');
    this.#replayedKeys = REPLAYED.map((name) => [name, names.headerKey(name)]);
    this.#fitText = fitText;
    this.#shapes = new LRUCache({ max: 20_000, ttl: 6 * 3_600_000 });
  }

  /** Returns the statement of a submission, one for each body. It retains values of headers that are stored, not the request. */
  of(body: BodyStart, fields: HeaderFields): RecordedStatement {
    const present = this.#ofBodies.get(body);
    if (present !== undefined) return present;
    const { text, complete } = body;
    let headers: Record<string, string> | null = null;
    for (const [name, key] of this.#replayedKeys) {
      const values = fields.get(key);
      if (values !== undefined) {
        headers ??= {};
        headers[name] = values.join();
      }
    }
    const source = fields.get(this.#sourceKey)?.join() ?? null;
    const lines = fields.get(this.#preparedKey);
    const statement = new RecordedStatement(this, { text, complete, source, lines, headers });
    this.#ofBodies.set(body, statement);
    return statement;
  }

  /** Computes digests and labels, or reads them of a text that comes again from the cache. */
  digest({ text, source, lines }: StatementSource): Digested {
    const isRepeat = lines === undefined && text.length <= MAX_CACHED_TEXT && this.#texts.isRepeat(text);
    const cached = isRepeat ? this.#digested.get(text) : undefined;
    if (cached?.source === source) return cached;
    const digests = digestsOfBody({ text }, lines);
    const digested = { source, digests, labels: statementLabels(digests.text, source) };
    if (isRepeat && !digests.isResolved) this.#digested.set(text, digested);
    return digested;
  }

  columns(
    { text, complete, headers }: StatementSource,
    { digests, labels }: Digested,
    storedText: string | null,
  ): StatementColumns {
    const isKnown = this.#shapes.has(digests.shape);
    if (!isKnown) this.#shapes.set(digests.shape, true);
    const resolved = digests.isResolved ? digests.text : null;
    const isWhole = complete && resolved === null && headers === null && (storedText === null || storedText === text);
    return {
      ...{ digest: digests.shape, exactDigest: digests.exact },
      ...{ tool: labels?.tool ?? null, model: labels?.model ?? null, dashboard: labels?.dashboard ?? null },
      shapeText: isKnown ? null : this.#fitText(shapeText(digests.text, MAX_SHAPE_TEXT), 4 * MAX_SHAPE_TEXT),
      replay: isWhole ? NOTHING_ELSE : this.#replay(text, complete, headers ?? {}, resolved, storedText),
    };
  }

  /** Inputs of a replay in addition to the text, as JSON. */
  #replay(
    text: string,
    complete: boolean,
    headers: Readonly<Record<string, string>>,
    resolved: string | null,
    storedText: string | null,
  ): string {
    const values: Record<string, string> = {};
    let isCut = !complete;
    let isRedacted = false;
    const note = (whole: string, stored: string): void => {
      if (stored === whole) return;
      if (whole.startsWith(stored)) isCut = true;
      else isRedacted = true;
    };
    for (const [name, value] of Object.entries(headers)) {
      const redacted = value.replace(SECRET_PROPERTY, (pair) => `${pair.slice(0, pair.indexOf('='))}=***`);
      values[name] = this.#fitText(redacted, MAX_HEADER_CHARACTERS);
      note(value, values[name]);
    }
    const statement = resolved === null ? null : this.#fitText(resolved, MAX_RESOLVED_BYTES);
    if (resolved !== null && statement !== null) note(resolved, statement);
    note(text, storedText ?? text);
    const state = isRedacted ? 'redacted' : isCut ? 'cut' : 'yes';
    return JSON.stringify({ complete: state, headers: values, ...(statement !== null && { statement }) });
  }
}

/** Computes digests when they are read first, and columns when the first record of it is written, off the path of requests. */
class RecordedStatement implements StatementFacts {
  readonly #statements: RecordedStatements;
  readonly #source: StatementSource;
  #storedText: string | null = null;
  #digested: Digested | null = null;
  #columns: StatementColumns | null = null;

  constructor(statements: RecordedStatements, source: StatementSource) {
    this.#statements = statements;
    this.#source = source;
  }

  noteStored(text: string): void {
    this.#storedText = text;
  }

  get digests(): StatementDigests {
    this.#digested ??= this.#statements.digest(this.#source);
    return this.#digested.digests;
  }

  get columns(): StatementColumns {
    this.#digested ??= this.#statements.digest(this.#source);
    this.#columns ??= this.#statements.columns(this.#source, this.#digested, this.#storedText);
    return this.#columns;
  }

  toJSON() {
    return { columns: this.columns };
  }
}
