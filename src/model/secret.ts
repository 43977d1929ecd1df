/** A secret that can change while the program runs (docs/secrets.md). */
export interface Secret {
  readonly text: string;
  /**
   * Reads the file of the secret again and returns its text. Never rejects: the previous text stays if the file is
   * unreadable.
   */
  read(): Promise<string>;
}
