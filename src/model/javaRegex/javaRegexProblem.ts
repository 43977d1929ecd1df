import { type Alternatives, isCharacter, type PatternNode } from './pattern.ts';
import { PatternError, parsePattern } from './patternParser.ts';

/** Deepest nesting of groups and classes; far less than what a JVM's stack holds. */
const MAX_DEPTH = 250;

/**
 * Says what is wrong with a Java regular expression, or null when it compiles. Engines compile the expressions of selectors,
 * and one that does not compile keeps them from loading any selector.
 */
export function javaRegexProblem(pattern: string): string | null {
  try {
    extentOfAlternatives(parsePattern(pattern, MAX_DEPTH));
    return null;
  } catch (error) {
    if (error instanceof PatternError) return error.message;
    throw error;
  }
}

/** What a piece means inside a look-behind, which needs an obvious maximum length. */
interface Extent {
  readonly bounded: boolean;
  readonly deterministic: boolean;
}

const single: Extent = { bounded: true, deterministic: true };

/** @throws PatternError for a look-behind without an obvious maximum length */
function extentOfAlternatives({ branches }: Alternatives): Extent {
  const extents = branches.map((pieces) => pieces.map(extentOf));
  return {
    bounded: extents.flat().every(({ bounded }) => bounded),
    deterministic: branches.length === 1 && extents.flat().every(({ deterministic }) => deterministic),
  };
}

function extentOf(node: PatternNode): Extent {
  switch (node.kind) {
    case 'alternatives':
      return extentOfAlternatives(node);
    case 'group': {
      const extent = extentOfAlternatives(node.body);
      if ((node.form === 'behind' || node.form === 'notBehind') && !extent.bounded && !hasOneLoop(node.body)) {
        throw new PatternError('has a look-behind without an obvious maximum length', node.offset);
      }
      return extent;
    }
    case 'repetition': {
      const { of, quantifier, minimum, maximum, mode } = node;
      const extent = extentOf(of);
      const optional = quantifier === '?';
      const repeatable = optional || of.kind !== 'group' || extent.deterministic || mode === 'possessive';
      return {
        bounded: extent.bounded && Number.isFinite(maximum) && repeatable,
        deterministic: extent.deterministic && !optional && minimum === maximum,
      };
    }
    case 'backReference':
      return { bounded: false, deterministic: true };
    default:
      return single;
  }
}

/**
 * Whether characters and places are all that is there beside one `*` or `+` of a character. Java takes that as bounded, by
 * what it can count to; with anything more it refuses the look-behind or, where its sum of lengths overflows, misses places.
 */
function hasOneLoop({ branches }: Alternatives): boolean {
  const [pieces = [], ...others] = branches;
  const isPlain = (piece: PatternNode): boolean =>
    isCharacter(piece) || piece.kind === 'anchor' || (piece.kind === 'boundary' && !'RX'.includes(piece.letter));
  const [loop, ...more] = pieces.filter((piece) => !isPlain(piece));
  if (others.length > 0 || more.length > 0 || loop?.kind !== 'repetition') return false;
  return isCharacter(loop.of) && loop.mode === 'greedy' && /^[*+]$/.test(loop.quantifier);
}
