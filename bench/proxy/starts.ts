import { mean, median, standardError } from '../statistics.ts';

/**
 * Rounds with the same processes. Compiled code turns out better or worse by chance, which more rounds of the same
 * process do not even out.
 */
const ROUNDS_A_START = 8;

/** By how much nginx may be slower in a round than it is expected to be: beyond, the machine is busy otherwise. */
export const MAX_DISTURBANCE = 1.15;

/** How many rounds each start of the processes is measured for. */
export function roundsOfStarts(rounds: number): readonly number[] {
  const starts = Math.ceil(rounds / ROUNDS_A_START);
  return Array.from({ length: starts }, (_, start) => Math.min(ROUNDS_A_START, rounds - start * ROUNDS_A_START));
}

/** The figure of several starts. */
export interface FigureOfStarts {
  /** The mean of the starts' figures. */
  readonly mean: number;
  /** `mean of 3 starts, standard error 0.2: 7.1 6.8 7.4`. */
  readonly text: string;
}

/**
 * Sums up what rounds of several starts measured: of each start the median counts, and of those the mean.
 * @param rounds those of which the figure is asked; they may be of fewer starts than were measured
 * @param digits after the decimal point in the text
 */
export function figureOfStarts<Round extends { readonly start: number }>(
  rounds: readonly Round[],
  figure: (round: Round) => number,
  digits: number,
): FigureOfStarts {
  const figures = [...Map.groupBy(rounds, ({ start }) => start).values()].map((some) => median(some.map(figure)));
  const error = figures.length < 2 ? '' : `, standard error ${standardError(figures).toFixed(digits + 1)}`;
  const all = figures.map((each) => each.toFixed(digits)).join(' ');
  return { mean: mean(figures), text: `mean of ${figures.length} starts${error}: ${all}` };
}

/** The round in the middle by a figure. @throws where there is none */
export function middleRound<Round>(rounds: readonly Round[], figure: (round: Round) => number): Round {
  const sorted = rounds.toSorted((a, b) => figure(a) - figure(b));
  const middle = sorted[(sorted.length - 1) >> 1];
  if (middle === undefined) throw new Error('no round was measured');
  return middle;
}
