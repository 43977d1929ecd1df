/** A secret that can change while the program runs (docs/secrets.md). */
export interface Secret {
  /** The text as last read. */
  readonly text: string;
  /** Reads the file of the secret again and returns its text. Never rejects: the last text stays if the file is unreadable. */
  read(): Promise<string>;
}
