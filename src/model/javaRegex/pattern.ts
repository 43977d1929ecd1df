/** A piece of a Java regular expression. `offset` is its place in the expression as written, in UTF-16 units from 0. */
export type PatternNode =
  | Alternatives
  | Repetition
  | Group
  | Flags
  | CharacterClass
  | ClassAtom
  /** `.` */
  | { readonly kind: 'dot'; readonly offset: number }
  /** `^`, `$`, and after a backslash `A`, `b`, `B`, `b{g}`, `G`, `R`, `X`, `z`, `Z`. */
  | { readonly kind: 'anchor' | 'boundary'; readonly letter: string; readonly offset: number }
  | { readonly kind: 'backReference'; readonly offset: number }
  /** Nothing before a `{2}`, which Java repeats. */
  | { readonly kind: 'nothing'; readonly offset: number };

/** What stands for one character, within a class or outside of one. */
export type ClassAtom =
  | { readonly kind: 'character'; readonly codePoint: number; readonly offset: number }
  /** `\d`, `\W` and the like. */
  | { readonly kind: 'set'; readonly letter: string; readonly offset: number }
  /** `\p{name}`, negated `\P{name}`. */
  | { readonly kind: 'property'; readonly name: string; readonly isNegated: boolean; readonly offset: number }
  /** `\N{name}`; the name is not looked up. */
  | { readonly kind: 'namedCharacter'; readonly offset: number };

/** Branches between `|`, each a sequence of pieces; the whole expression and the inside of a group. */
export interface Alternatives {
  readonly kind: 'alternatives';
  readonly branches: readonly (readonly PatternNode[])[];
  readonly offset: number;
}

/** A piece with its quantifier. */
export interface Repetition {
  readonly kind: 'repetition';
  readonly of: PatternNode;
  /** `*`, `+`, `?`, `{2}`, `{2,}`, `{2,3}`. */
  readonly quantifier: string;
  readonly minimum: number;
  /** Infinity: no end. */
  readonly maximum: number;
  readonly mode: 'greedy' | 'lazy' | 'possessive';
  /** Of the quantifier's last character. */
  readonly offset: number;
}

/** A group; `flags`: `(?i:…)`. */
export interface Group {
  readonly kind: 'group';
  readonly form: 'capturing' | 'named' | 'plain' | 'flags' | 'ahead' | 'notAhead' | 'behind' | 'notBehind' | 'atomic';
  readonly name: string | null;
  readonly flags: FlagChange;
  readonly body: Alternatives;
  readonly offset: number;
}

/** `(?i)`: flags up to the end of the group around it. */
export interface Flags {
  readonly kind: 'flags';
  readonly flags: FlagChange;
  readonly offset: number;
}

/** Letters of the flags that are set and cleared. */
export interface FlagChange {
  readonly on: string;
  readonly off: string;
}

/** `[…]`: the intersection of operands between `&&`, each the union of its items. */
export interface CharacterClass {
  readonly kind: 'class';
  readonly isNegated: boolean;
  readonly operands: readonly (readonly ClassItem[])[];
  readonly offset: number;
}

/** A part of a class. */
export type ClassItem =
  | ClassAtom
  | CharacterClass
  | { readonly kind: 'range'; readonly from: number; readonly to: number; readonly offset: number };

const characterKinds: ReadonlySet<PatternNode['kind']> = new Set([
  ...(['character', 'set', 'property', 'namedCharacter', 'class', 'dot'] as const),
]);

/** Whether a piece stands for exactly one character. */
export function isCharacter({ kind }: PatternNode): boolean {
  return characterKinds.has(kind);
}
