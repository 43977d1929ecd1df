import { type Boundary, boundaryOf } from './boundary.ts';
import { atomTest, type CharacterTest, classTest, dotTest, endsLine, type PatternFlags } from './characterTest.ts';
import {
  type Alternatives,
  type FlagChange,
  type Group,
  isCharacter,
  type PatternNode,
  type Repetition,
} from './pattern.ts';
import { PatternError } from './patternParser.ts';

/** A pattern as it is matched: flags are part of the tests, groups are gone. */
export type MatchNode =
  | { readonly kind: 'one'; readonly test: CharacterTest }
  | { readonly kind: 'sequence'; readonly parts: readonly MatchNode[] }
  | { readonly kind: 'choice'; readonly branches: readonly MatchNode[] }
  | { readonly kind: 'repeat'; readonly of: MatchNode; readonly minimum: number; readonly maximum: number }
  | { readonly kind: 'boundary'; readonly holds: Boundary }
  | LookAround;

/** A condition on what follows a place, or on what is before it. */
export interface LookAround {
  readonly kind: 'look';
  readonly isAhead: boolean;
  readonly isPositive: boolean;
  readonly body: MatchNode;
}

const nothing: MatchNode = { kind: 'sequence', parts: [] };

const noFlags: PatternFlags = {
  ...{ ignoreCase: false, unicodeCase: false, unicodeClasses: false },
  ...{ dotAll: false, multiline: false, unixLines: false },
};

/**
 * The tree of a parsed expression.
 * @throws PatternError for what cannot be matched in linear time (back references, atomic groups that have a choice) or is
 *   not available here
 */
export function matchTree(pattern: Alternatives): MatchNode {
  return new TreeBuilder().alternatives(pattern);
}

class TreeBuilder {
  #flags = noFlags;

  alternatives({ branches }: Alternatives): MatchNode {
    const nodes = branches.map((pieces) => this.#sequence(pieces));
    return nodes.length === 1 ? (nodes[0] as MatchNode) : { kind: 'choice', branches: nodes };
  }

  #sequence(pieces: readonly PatternNode[]): MatchNode {
    const parts = pieces.flatMap((piece) => {
      if (piece.kind !== 'flags') return this.#node(piece);
      this.#change(piece.flags);
      return [];
    });
    return parts.length === 1 ? (parts[0] as MatchNode) : { kind: 'sequence', parts };
  }

  #node(node: PatternNode): MatchNode {
    switch (node.kind) {
      case 'alternatives':
        return this.alternatives(node);
      case 'repetition':
        return this.#repetition(node);
      case 'group':
        return this.#group(node);
      case 'class':
        return { kind: 'one', test: classTest(node, this.#flags) };
      case 'dot':
        return { kind: 'one', test: dotTest(this.#flags) };
      case 'anchor':
        return { kind: 'boundary', holds: boundaryOf(node.letter, this.#flags, node.offset) };
      case 'boundary':
        if (node.letter === 'R') return lineBreak;
        return { kind: 'boundary', holds: boundaryOf(node.letter, this.#flags, node.offset) };
      case 'backReference':
        throw new PatternError('has a back reference, which cannot be matched in linear time', node.offset);
      case 'nothing':
      case 'flags':
        return nothing;
      default:
        return { kind: 'one', test: atomTest(node, this.#flags) };
    }
  }

  #repetition({ of, minimum, maximum, mode, offset }: Repetition): MatchNode {
    const isLineBreak = of.kind === 'boundary' && of.letter === 'R';
    const node = isLineBreak ? wholeLineBreak : this.#node(of);
    if (mode !== 'possessive') return { kind: 'repeat', of: node, minimum, maximum };
    if (node.kind !== 'one') {
      const fix = 'is possessive for more than one character, which cannot be matched in linear time';
      throw new PatternError(fix, offset);
    }
    return possessive(node, minimum, maximum);
  }

  #group({ form, flags, body, offset }: Group): MatchNode {
    const before = this.#flags;
    if (form === 'flags') this.#change(flags);
    const node = form === 'atomic' ? this.#atomic(body, offset) : this.alternatives(body);
    this.#flags = before;
    switch (form) {
      case 'ahead':
      case 'notAhead':
        return { kind: 'look', isAhead: true, isPositive: form === 'ahead', body: node };
      case 'behind':
      case 'notBehind':
        return { kind: 'look', isAhead: false, isPositive: form === 'behind', body: node };
      default:
        return node;
    }
  }

  /** `(?>…)`: nothing is given back. Characters, and one repetition of a character after them, have one way to match. */
  #atomic(body: Alternatives, offset: number): MatchNode {
    const [pieces = [], ...others] = body.branches;
    const last = pieces.at(-1);
    const isLastRepeated = last?.kind === 'repetition' && last.mode !== 'lazy' && isCharacter(last.of);
    const fixed = isLastRepeated ? pieces.slice(0, -1) : pieces;
    if (others.length > 0 || !fixed.every((piece) => isCharacter(piece) || piece.kind === 'anchor')) {
      throw new PatternError('has an atomic group with a choice, which cannot be matched in linear time', offset);
    }
    const own: PatternNode[] = [...fixed];
    if (isLastRepeated) own.push({ ...last, mode: 'possessive' });
    return this.#sequence(own);
  }

  #change({ on, off }: FlagChange): void {
    const has = (letter: string, before: boolean): boolean =>
      on.includes(letter) ? true : off.includes(letter) ? false : before;
    const before = this.#flags;
    const unicodeClasses = has('U', before.unicodeClasses);
    this.#flags = {
      ignoreCase: has('i', before.ignoreCase),
      // U sets u with it, and clears it.
      unicodeCase: has('u', has('U', before.unicodeCase)),
      unicodeClasses,
      dotAll: has('s', before.dotAll),
      multiline: has('m', before.multiline),
      unixLines: has('d', before.unixLines),
    };
  }
}

/** A repetition of one character that gives nothing back: as often as it goes, so that none of them follows. */
function possessive(of: MatchNode, minimum: number, maximum: number): MatchNode {
  const end: MatchNode = { kind: 'look', isAhead: true, isPositive: false, body: of };
  if (!Number.isFinite(maximum)) {
    return { kind: 'sequence', parts: [{ kind: 'repeat', of, minimum, maximum }, end] };
  }
  const most: MatchNode = { kind: 'repeat', of, minimum: maximum, maximum };
  if (minimum === maximum) return most;
  const fewer: MatchNode = { kind: 'repeat', of, minimum, maximum: maximum - 1 };
  return { kind: 'choice', branches: [{ kind: 'sequence', parts: [fewer, end] }, most] };
}

const one = (codePoint: number): MatchNode => ({ kind: 'one', test: (point) => point === codePoint });

const lineFeed = one(10);
const pair: MatchNode = { kind: 'sequence', parts: [one(13), lineFeed] };
const singleLineBreak: MatchNode = { kind: 'one', test: (point) => endsLine(point) || point === 11 || point === 12 };

/** `\R` */
const lineBreak: MatchNode = { kind: 'choice', branches: [pair, singleLineBreak] };

/** `\R` that is repeated: Java does not part a carriage return from its line feed then. */
const wholeLineBreak: MatchNode = {
  kind: 'choice',
  branches: [
    pair,
    { kind: 'sequence', parts: [one(13), { kind: 'look', isAhead: true, isPositive: false, body: lineFeed }] },
    { kind: 'one', test: (point) => point !== 13 && (endsLine(point) || point === 11 || point === 12) },
  ],
};
