import { readFile } from 'node:fs/promises';
import type { Secret } from '../model/secret.ts';
import { withoutLineEnd } from './environment.ts';
import { MASK } from './logger.ts';

/** A secret of the configuration. It follows its file if the value is `${FILE:PATH}` (docs/secrets.md). */
export class SecretText implements Secret {
  /** The value as written in the configuration, by which configurations are compared. */
  readonly written: string;
  readonly #path: string | null;
  #text: string;

  /** @param reference the value as written if it contains references; null for a literal text */
  constructor(text: string, reference: string | null) {
    this.#text = text;
    this.#path = /^\$\{FILE:([^}]*)\}$/.exec(reference ?? '')?.[1] ?? null;
    this.written = this.#path === null ? text : (reference ?? '');
  }

  get text(): string {
    return this.#text;
  }

  async read(): Promise<string> {
    if (this.#path !== null) {
      this.#text = await readFile(this.#path, 'utf8').then(withoutLineEnd, () => this.#text);
    }
    return this.#text;
  }

  toJSON(): string {
    return MASK;
  }
}
