import type { Boundary, CodePoints } from './boundary.ts';
import type { CharacterTest } from './characterTest.ts';
import type { LookAround, MatchNode } from './matchTree.ts';

/** Where a look-around holds in a text: 1 at its places. */
export type LookTable = Uint8Array;

/** What one instruction does before the next one. */
type Instruction =
  | { readonly kind: 'one'; readonly test: CharacterTest }
  | { readonly kind: 'split'; readonly to: number; readonly or: number }
  | { readonly kind: 'jump'; readonly to: number }
  | { readonly kind: 'boundary'; readonly holds: Boundary }
  | { readonly kind: 'look'; readonly table: number; readonly isPositive: boolean }
  | { readonly kind: 'accept' };

/** Counts what is compiled. @throws where it is too much */
export type Budget = (instructions: number) => void;

/** Says the number of a look-around's table. */
export type TableOf = (look: LookAround) => number;

/**
 * An expression as a machine that follows all of its ways at once, a character after the other: its time grows with the
 * text times its instructions, whatever both are.
 */
export class MatchProgram {
  readonly #instructions: Instruction[] = [];
  readonly #isBackward: boolean;
  /** The round in which an instruction was reached last. */
  readonly #reached: Int32Array;
  readonly #pending: Int32Array;
  #round = 0;

  /** @param isBackward reads texts from their end, for look-aheads */
  constructor(tree: MatchNode, isBackward: boolean, tableOf: TableOf, budget: Budget) {
    this.#isBackward = isBackward;
    this.#emit(tree, tableOf, budget);
    this.#instructions.push({ kind: 'accept' });
    this.#reached = new Int32Array(this.#instructions.length);
    this.#pending = new Int32Array(2 * this.#instructions.length + 2);
  }

  get size(): number {
    return this.#instructions.length;
  }

  /** Whether a text matches from its start to its end. */
  matchesWhole(text: CodePoints, tables: readonly LookTable[]): boolean {
    let states = this.#closure([0], text, 0, tables);
    for (let at = 0; at < text.length && states.length > 0; at += 1) {
      states = this.#closure(this.#step(states, text[at] as number), text, at + 1, tables);
    }
    return states.includes(this.#instructions.length - 1);
  }

  /** Places of a text where a match begins (backward) or ends (forward). */
  places(text: CodePoints, tables: readonly LookTable[]): LookTable {
    const accept = this.#instructions.length - 1;
    const places = new Uint8Array(text.length + 1);
    let states: number[] = [];
    for (let read = 0; read <= text.length; read += 1) {
      const at = this.#isBackward ? text.length - read : read;
      states.push(0);
      states = this.#closure(states, text, at, tables);
      if (states.includes(accept)) places[at] = 1;
      if (read === text.length) break;
      states = this.#step(states, text[this.#isBackward ? at - 1 : at] as number);
    }
    return places;
  }

  /** The instructions that read a character, or accept, that are reached from others at a place. */
  #closure(from: readonly number[], text: CodePoints, at: number, tables: readonly LookTable[]): number[] {
    this.#nextRound();
    const round = this.#round;
    const [reached, pending] = [this.#reached, this.#pending];
    const states: number[] = [];
    for (const start of from) {
      let count = 0;
      pending[count++] = start;
      while (count > 0) {
        const index = pending[--count] as number;
        if (reached[index] === round) continue;
        reached[index] = round;
        const instruction = this.#instructions[index] as Instruction;
        switch (instruction.kind) {
          case 'one':
          case 'accept':
            states.push(index);
            break;
          case 'split':
            pending[count++] = instruction.or;
            pending[count++] = instruction.to;
            break;
          case 'jump':
            pending[count++] = instruction.to;
            break;
          case 'boundary':
            if (instruction.holds(text, at)) pending[count++] = index + 1;
            break;
          case 'look':
            if ((tables[instruction.table]?.[at] === 1) === instruction.isPositive) pending[count++] = index + 1;
            break;
        }
      }
    }
    return states;
  }

  #step(states: readonly number[], point: number): number[] {
    const next: number[] = [];
    for (const index of states) {
      const instruction = this.#instructions[index] as Instruction;
      if (instruction.kind === 'one' && instruction.test(point)) next.push(index + 1);
    }
    return next;
  }

  #nextRound(): void {
    if (this.#round === 0x7fffffff) {
      this.#reached.fill(0);
      this.#round = 0;
    }
    this.#round += 1;
  }

  #emit(node: MatchNode, tableOf: TableOf, budget: Budget): void {
    const emit = (inner: MatchNode) => this.#emit(inner, tableOf, budget);
    const { length: here } = this.#instructions;
    // Also what becomes no instruction counts: a repetition may have it any number of times.
    budget(1);
    switch (node.kind) {
      case 'one':
      case 'boundary':
        this.#instructions.push(node);
        return;
      case 'look':
        this.#instructions.push({ kind: 'look', table: tableOf(node), isPositive: node.isPositive });
        return;
      case 'sequence':
        for (const part of this.#isBackward ? node.parts.toReversed() : node.parts) emit(part);
        return;
      case 'choice':
        this.#emitChoice(node.branches, emit);
        return;
      case 'repeat': {
        const { of, minimum, maximum } = node;
        for (let count = 0; count < minimum; count += 1) emit(of);
        if (Number.isFinite(maximum)) this.#emitOptional(of, maximum - minimum, emit);
        else this.#emitLoop(of, emit);
        budget(this.#instructions.length > here ? 1 : 0);
        return;
      }
    }
  }

  #emitChoice(branches: readonly MatchNode[], emit: (node: MatchNode) => void): void {
    const ends: number[] = [];
    for (const [index, branch] of branches.entries()) {
      if (index === branches.length - 1) {
        emit(branch);
        continue;
      }
      const split = this.#reserve();
      emit(branch);
      ends.push(this.#reserve());
      this.#instructions[split] = { kind: 'split', to: split + 1, or: this.#instructions.length };
    }
    for (const end of ends) this.#instructions[end] = { kind: 'jump', to: this.#instructions.length };
  }

  #emitLoop(of: MatchNode, emit: (node: MatchNode) => void): void {
    const split = this.#reserve();
    emit(of);
    this.#instructions.push({ kind: 'jump', to: split });
    this.#instructions[split] = { kind: 'split', to: split + 1, or: this.#instructions.length };
  }

  #emitOptional(of: MatchNode, most: number, emit: (node: MatchNode) => void): void {
    const splits: number[] = [];
    for (let count = 0; count < most; count += 1) {
      splits.push(this.#reserve());
      emit(of);
    }
    for (const split of splits) {
      this.#instructions[split] = { kind: 'split', to: split + 1, or: this.#instructions.length };
    }
  }

  /** A place for an instruction whose target is known later. */
  #reserve(): number {
    return this.#instructions.push({ kind: 'accept' }) - 1;
  }
}
