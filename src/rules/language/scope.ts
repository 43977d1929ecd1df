import type { ProductNames } from '../../model/names.ts';
import type { Expression } from './ast.ts';
import type { CompileBudget } from './compileBudget.ts';
import { CompileError, UnavailableError } from './source.ts';

/** A rule needs request analysis, which is off. */
export class AnalysisDisabledError extends UnavailableError {}

/** What a text is compiled against. */
export interface CompileContext {
  readonly names: ProductNames;
  /** Whether the request's user and query are there (`requestAnalyzerConfig.analyzeRequest`). */
  readonly analyzeRequest: boolean;
  /** Whether to warn of what means something else in the reference gateway; true by default. */
  readonly differenceWarnings?: boolean;
  /**
   * Compiles for requests of which only a record is left (`src/rules/replay`); `lenient` where a rule that fails comes to the same
   * as one whose condition is false.
   */
  readonly replay?: 'strict' | 'lenient';
}

/** The global objects by their part in the evaluation. */
export type GlobalObject = 'request' | 'state' | 'result' | 'user' | 'query';

/** Warnings that are kept of one text. */
const MOST_WARNINGS = 20;

/** Names of one compiled text: globals, and local variables by block. */
export class Scope {
  readonly context: CompileContext;
  /** Of the rule that the text belongs to. */
  readonly budget: CompileBudget;
  readonly #globals: ReadonlyMap<string, GlobalObject>;
  readonly #blocks: Map<string, number>[] = [new Map()];
  /** Slots that the text's variables need. */
  slots = 0;
  /** Expressions and statements that were compiled so far. */
  nodes = 0;
  /** Mistakes that only fail when they are reached. */
  readonly warnings: { readonly message: string; readonly offset: number }[] = [];
  readsUser = false;
  readsQuery = false;
  /** The expression that is the whole text; null where the text is something else. */
  readonly whole: Expression | null;

  constructor(context: CompileContext, budget: CompileBudget, whole: Expression | null = null) {
    this.whole = whole;
    this.context = context;
    this.budget = budget;
    this.#globals = new Map<string, GlobalObject>([
      ['request', 'request'],
      ['state', 'state'],
      ['result', 'result'],
      [context.names.requestUserObject, 'user'],
      [context.names.queryPropertiesObject, 'query'],
    ]);
  }

  /** Names of the global objects that exist. */
  globalNames(): string[] {
    return [...this.#globals]
      .filter(([, object]) => this.context.analyzeRequest || (object !== 'user' && object !== 'query'))
      .map(([name]) => name);
  }

  /** The global object of a name; undefined when it names none. */
  global(name: string, offset: number): GlobalObject | undefined {
    const object = this.#globals.get(name);
    if (object !== 'user' && object !== 'query') return object;
    if (!this.context.analyzeRequest) {
      throw new AnalysisDisabledError(
        `${name} needs request analysis, which is off: set requestAnalyzerConfig.analyzeRequest to true`,
        offset,
      );
    }
    if (object === 'user') this.readsUser = true;
    else this.readsQuery = true;
    return object;
  }

  /** True where a name is a global object or variable. */
  isDefined(name: string): boolean {
    return this.slot(name) !== undefined || this.globalNames().includes(name);
  }

  warn(message: string, offset: number): void {
    // The first ones say enough; each is shown with its place.
    if (this.warnings.length < MOST_WARNINGS) this.warnings.push({ message, offset });
  }

  /** Slot of a variable; undefined when there is none of that name. */
  slot(name: string): number | undefined {
    for (let depth = this.#blocks.length - 1; depth >= 0; depth -= 1) {
      const slot = this.#blocks[depth]?.get(name);
      if (slot !== undefined) return slot;
    }
    return undefined;
  }

  /** Makes a variable of the current block. */
  declare(name: string, offset: number): number {
    if (this.slot(name) !== undefined) throw new CompileError(`the variable ${name} exists already`, offset);
    if (this.#globals.has(name)) throw new CompileError(`${name} cannot be replaced`, offset);
    const slot = this.slots;
    this.slots += 1;
    this.#blocks.at(-1)?.set(name, slot);
    return slot;
  }

  /** Runs a step within a block of its own. */
  inBlock<T>(step: () => T): T {
    this.#blocks.push(new Map());
    const result = step();
    this.#blocks.pop();
    return result;
  }
}
