/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** Private-use characters that stand around a variable's name while the text is parsed. */
const OPEN = '\uE000';
const CLOSE = '\uE001';
const reference = /\$\{ENV:([A-Za-z][A-Za-z0-9_-]*)\}/g;
const mark = new RegExp(`${OPEN}([^${CLOSE}]*)${CLOSE}`, 'g');

/** True when a text holds the characters that mark references, so that it cannot be read. */
export function holdsMarks(text: string): boolean {
  return text.includes(OPEN) || text.includes(CLOSE);
}

/**
 * Marks each `${ENV:NAME}` of a file's text, so that YAML takes it as part of whatever scalar it stands in, in flow
 * lists as well, and its value is put in after parsing (`expand`). A value therefore stays within its scalar: quotes,
 * `#`, `: ` or line ends in it mean themselves. Line numbers stay.
 */
export function markReferences(text: string): string {
  return text.replace(reference, `${OPEN}$1${CLOSE}`);
}

/** A scalar's text with its references replaced. */
export interface Expanded {
  readonly text: string;
  /** True when the whole text was one reference: its value may then be a list or map in YAML of its own. */
  readonly wholly: boolean;
  /** Variables that are not set. */
  readonly unset: readonly string[];
}

/** Puts the values of variables in place of their marks. A variable set to nothing is set. */
export function expand(text: string, environment: Environment): Expanded {
  if (!text.includes(OPEN)) return { text, wholly: false, unset: [] };
  const unset: string[] = [];
  const wholly = text.startsWith(OPEN) && text.indexOf(CLOSE) === text.length - 1;
  const expanded = text.replace(mark, (_, name: string) => {
    const value = Object.hasOwn(environment, name) ? environment[name] : undefined;
    if (value === undefined) unset.push(name);
    return value ?? '';
  });
  return { text: expanded, wholly, unset };
}
