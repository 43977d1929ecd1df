import { RE2JS } from 're2js';
import { cutToBytes } from './historyText.ts';

/** Storage of query texts (`queryHistory`). */
export interface KeptTextSettings {
  /** Longest text, bytes of UTF-8. */
  readonly maxTextSize: number;
  /** Regular expressions (RE2) whose matches become `***`. */
  readonly redact: readonly string[];
}

/** Bytes beyond the kept text in which a match may end. */
const REDACT_MARGIN = 65_536;

/** Redacts and cuts texts before they are kept; remembers the compiled expressions. */
export class KeptTexts {
  private source: readonly string[] = [];
  private redactors: readonly RE2JS[] = [];

  fit(text: string, { maxTextSize, redact }: KeptTextSettings): string {
    if (redact.length === 0) return cutToBytes(text, maxTextSize);
    if (this.source !== redact) {
      this.source = redact;
      this.redactors = redact.map((pattern) => RE2JS.compile(pattern));
    }
    // Before the cut: half a secret at the end would not match any more.
    let redacted = cutToBytes(text, maxTextSize + REDACT_MARGIN);
    for (const redactor of this.redactors) redacted = redactor.matcher(redacted).replaceAll('***');
    return cutToBytes(redacted, maxTextSize);
  }
}
