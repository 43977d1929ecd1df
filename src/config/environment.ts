import { readFileSync } from 'node:fs';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Private-use characters that stand around a reference while the text is parsed. */
const OPEN = '\uE000';
const CLOSE = '\uE001';
const reference = /\$\{(ENV:[A-Za-z][A-Za-z0-9_-]*|FILE:[A-Za-z0-9_./-]+)\}/g;
const mark = new RegExp(`${OPEN}([^${CLOSE}]*)${CLOSE}`, 'g');

/** True when a text holds the characters that mark references, so that it cannot be read. */
export function holdsMarks(text: string): boolean {
  return text.includes(OPEN) || text.includes(CLOSE);
}

/**
 * Marks each `${ENV:NAME}` and `${FILE:PATH}` of a file's text, so that YAML takes it as part of whatever scalar it
 * stands in, in flow lists as well, and its value is put in after parsing (`expand`). A value therefore stays within its
 * scalar: quotes, `#`, `: ` or line ends in it mean themselves. Line numbers stay.
 */
export function markReferences(text: string): string {
  return text.replace(reference, `${OPEN}$1${CLOSE}`);
}

/** A text with its references in the form that people write. */
export function unmarkReferences(text: string): string {
  return text.replace(mark, (_, name: string) => `\${${name}}`);
}

/** Text that looks like a reference but is not marked as one, or null. */
export function oddReference(text: string): string | null {
  return /\$\{(?:ENV|FILE):[^}]*\}?/.exec(text)?.[0] ?? null;
}

/** A scalar's text with its references replaced. */
export interface Expanded {
  readonly text: string;
  /** True when the whole text was one variable: its value may then be a list or map in YAML of its own. */
  readonly wholly: boolean;
  readonly problems: readonly string[];
}

/** Puts the values of variables and the texts of files in place of their marks. A variable set to nothing is set. */
export function expand(text: string, environment: Environment): Expanded {
  if (!text.includes(OPEN)) return { text, wholly: false, problems: [] };
  const problems: string[] = [];
  const wholly = text.startsWith(`${OPEN}ENV:`) && text.indexOf(CLOSE) === text.length - 1;
  const expanded = text.replace(mark, (_, content: string) => {
    const colon = content.indexOf(':');
    const name = content.slice(colon + 1);
    const value = content.startsWith('ENV:') ? variable(name, environment) : textOfFile(name);
    if ('problem' in value) problems.push(value.problem);
    return 'value' in value ? value.value : '';
  });
  return { text: expanded, wholly, problems };
}

type Resolution = { readonly value: string } | { readonly problem: string };

function variable(name: string, environment: Environment): Resolution {
  const value = Object.hasOwn(environment, name) ? environment[name] : undefined;
  return value === undefined ? { problem: `Configuration references unset environment variable '${name}'` } : { value };
}

/** Returns the text of a file without the line end that editors put at its end. */
export function withoutLineEnd(text: string): string {
  return text.replace(/\r?\n$/, '');
}

/** Text of a file, such as a mounted Secret's. */
function textOfFile(path: string): Resolution {
  try {
    return { value: withoutLineEnd(readFileSync(path, 'utf8')) };
  } catch (error) {
    return { problem: `Configuration references the file '${path}', which ${whyUnreadable(error)}` };
  }
}

export function whyUnreadable(error: unknown): string {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === 'ENOENT') return 'cannot be read: there is no such file';
  if (code === 'EACCES') return 'cannot be read: permission denied';
  if (code === 'EISDIR') return 'cannot be read: it is a directory';
  return `cannot be read: ${error instanceof Error ? error.message : String(error)}`;
}
