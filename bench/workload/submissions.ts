import { productNames } from '../../src/model/names.ts';
import type { RuleRequest } from '../../src/rules/decision.ts';
import { type AnalyzableRequest, requestAnalysis } from '../../src/sql/analyzeRequest.ts';
import { sampleRequest } from '../../test/support/ruleAttempt.ts';

/** The inputs that a benchmark is run with. */
export type InputKind = 'unique' | 'repeated';
export const inputKinds: readonly InputKind[] = ['unique', 'repeated'];

/** What the inputs are, for the benchmark's output. */
export const inputModel = `unique: user, source, tags, tables and text of a submission never come again
repeated: 60 % come from 50 dashboards of 6 statements each, by Zipf's law, opened by 200 users, by Zipf's law as well;
          20 % from 40 scheduled jobs whose statements have a new date each time;
          20 % are typed by these users into 6 tools: a text comes once`;

/** A submission as the analysis and the rules get it. */
export interface SampleSubmission {
  readonly analyzable: AnalyzableRequest;
  readonly ruleRequest: RuleRequest;
}

const names = productNames('Engine');

/** Without a memory: the analysis of what rules get is not measured. */
const analyze = requestAnalysis({ names, maxBodySize: 1_000_000, clientsUseV2Format: false, cacheBytes: 0 });

/** What differs between submissions. */
interface Sender {
  readonly user: string;
  readonly source: string;
  readonly tags: string;
  readonly text: string;
}

const DASHBOARDS = 50;
const STATEMENTS_A_DASHBOARD = 6;
const JOBS = 40;
const USERS = 200;
const tools = ['superset', 'tableau', 'dbeaver', 'tool-1', 'tool-2', 'tool-8'];

/** Submissions one after the other; the same ones for the same seed. */
export class SubmissionStream {
  readonly #kind: InputKind;
  #state: number;
  #count = 0;

  /** @param seed of unique inputs, the place of the first one: streams that must not share values lie apart */
  constructor(kind: InputKind, seed: number) {
    this.#kind = kind;
    this.#state = seed + 1;
    this.#count = seed * 10_000_000;
  }

  /** The next submissions: new objects and texts, as of requests that have been read from a connection. */
  next(count: number): readonly SampleSubmission[] {
    return Array.from({ length: count }, () =>
      submissionOf(this.#kind === 'unique' ? this.#unique() : this.#repeated()),
    );
  }

  #unique(): Sender {
    this.#count += 1;
    const n = this.#count;
    // Each third matches what typical rules ask for by a part of the value.
    const user = n % 3 === 0 ? `u${n}@example.com` : `u${n}`;
    const source = n % 3 === 1 ? `dbt-${n}` : `client-${n}`;
    return { user, source, tags: `team=x${n}`, text: statement(n, `db${n}`, String(n)) };
  }

  #repeated(): Sender {
    this.#count += 1;
    const n = this.#count;
    const share = this.#random();
    const user = `user${this.#zipf(USERS)}`;
    if (share < 0.6) {
      const number = this.#zipf(DASHBOARDS * STATEMENTS_A_DASHBOARD);
      const dashboard = number % DASHBOARDS;
      const source = dashboard % 2 === 0 ? 'superset' : 'tableau';
      return {
        user,
        source,
        tags: `dashboard=${dashboard},label=bi`,
        text: statement(number, `db${dashboard}`, '2026'),
      };
    }
    if (share < 0.8) {
      const job = Math.floor(this.#random() * JOBS);
      const source = job % 2 === 0 ? 'airflow' : `dbt-${job}`;
      return {
        user: 'etl',
        source,
        tags: `team=t${job}`,
        text: job % 4 === 0 ? insert(job, n) : statement(job, 'jobs', String(n)),
      };
    }
    const source = tools[Math.floor(this.#random() * tools.length)] as string;
    return { user, source, tags: '', text: statement(n % 500, `db${n % 30}`, `typed ${n}`) };
  }

  /** From 0 to `count` - 1: the first half as often as the zeroth, and so on. */
  #zipf(count: number): number {
    return Math.floor((count + 1) ** this.#random()) - 1;
  }

  /** mulberry32, a small generator of numbers from 0 to 1. */
  #random(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }
}

/**
 * A statement of one to four tables, from 250 to 4,000 characters, half of them longer than 1,000: what tools for dashboards
 * write names each column several times.
 */
function statement(number: number, schema: string, literal: string): string {
  const joined = Array.from(
    { length: number % 4 },
    (_, index) => `JOIN hive.${schema}.d${(number + index) % 97} t${index} ON t${index}.id = e.d${index}_id`,
  );
  const columns = Array.from(
    { length: Math.round(16 ** ((number % 41) / 40) * 3) },
    (_, index) =>
      `CAST(sum(e."amount ${index}") FILTER (WHERE e.kind = ${index}) AS decimal(18, 2)) AS "Amount ${index}"`,
  );
  return `SELECT date_trunc('day', e.created_at) AS day, ${columns.join(', ')} FROM hive.${schema}.events e ${joined.join(' ')} WHERE e.region = '${literal}' AND e.created_at > current_date - INTERVAL '${1 + (number % 90)}' DAY GROUP BY 1 ORDER BY 1`;
}

function insert(number: number, day: number): string {
  return `INSERT INTO hive.jobs.out${number} SELECT * FROM hive.raw.in${number} WHERE day = '${day}'`;
}

/** Another object with the same characters: parts of what a connection received are never the same text. */
const fresh = (text: string): string => Buffer.from(text).toString('latin1');

function submissionOf({ user, source, tags, text }: Sender): SampleSubmission {
  const headers = [
    ...['Host', 'gateway.example:8080'],
    ...['User-Agent', 'engine-jdbc/476'],
    ...['X-Engine-User', user],
    ...['X-Engine-Source', source],
    ...['X-Engine-Catalog', 'hive'],
    ...['X-Engine-Schema', 'web'],
    ...['X-Engine-Client-Tags', tags],
    ...['Accept-Encoding', 'gzip'],
    ...['Content-Length', String(text.length)],
    ...['Content-Type', 'text/plain;charset=utf-8'],
  ].map(fresh);
  const analyzable = { method: 'POST', isSubmission: true, headers, body: Buffer.from(text) };
  return {
    analyzable,
    ruleRequest: {
      ...sampleRequest,
      headers,
      user: { user: fresh(user), userInfo: null },
      queryProperties: analyze(analyzable),
    },
  };
}
