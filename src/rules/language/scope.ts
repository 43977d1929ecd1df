import type { ProductNames } from '../../model/names.ts';
import type { Expression } from './ast.ts';
import type { CompileBudget } from './compileBudget.ts';
import { CompileError, UnavailableError } from './source.ts';

export class AnalysisDisabledError extends UnavailableError {}

export interface CompileContext {
  readonly names: ProductNames;
  /** True if the request's user and query are available (`requestAnalyzerConfig.analyzeRequest`). */
  readonly analyzeRequest: boolean;
  /** True enables warnings about differences from Trino Gateway (default). */
  readonly differenceWarnings?: boolean;
  /**
   * Compiles for recorded requests (`src/rules/replay`); `lenient` if a failed rule is equivalent to one with a false
   * condition.
   */
  readonly replay?: 'strict' | 'lenient';
}

export type GlobalObject = 'request' | 'state' | 'result' | 'user' | 'query';

const MAX_WARNINGS = 20;

/** Names of one compiled text: globals, and local variables by block. */
export class Scope {
  readonly context: CompileContext;
  readonly budget: CompileBudget;
  readonly #globals: ReadonlyMap<string, GlobalObject>;
  readonly #blocks: Map<string, number>[] = [new Map()];
  slots = 0;
  /** Number of compiled expressions and statements. */
  nodes = 0;
  /** Mistakes that only fail at evaluation. */
  readonly warnings: { readonly message: string; readonly offset: number }[] = [];
  readsUser = false;
  readsQuery = false;
  /** The expression if it is the whole text, else null. */
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

  globalNames(): string[] {
    return [...this.#globals]
      .filter(([, object]) => this.context.analyzeRequest || (object !== 'user' && object !== 'query'))
      .map(([name]) => name);
  }

  /** The global object of a name, or undefined. */
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

  isDefined(name: string): boolean {
    return this.slot(name) !== undefined || this.globalNames().includes(name);
  }

  warn(message: string, offset: number): void {
    // The first warnings are enough; each is shown with its position.
    if (this.warnings.length < MAX_WARNINGS) this.warnings.push({ message, offset });
  }

  /** Slot of a variable, or undefined. */
  slot(name: string): number | undefined {
    for (let depth = this.#blocks.length - 1; depth >= 0; depth -= 1) {
      const slot = this.#blocks[depth]?.get(name);
      if (slot !== undefined) return slot;
    }
    return undefined;
  }

  declare(name: string, offset: number): number {
    if (this.slot(name) !== undefined) throw new CompileError(`the variable ${name} exists already`, offset);
    if (this.#globals.has(name)) throw new CompileError(`${name} cannot be replaced`, offset);
    const slot = this.slots;
    this.slots += 1;
    this.#blocks.at(-1)?.set(name, slot);
    return slot;
  }

  inBlock<T>(step: () => T): T {
    this.#blocks.push(new Map());
    const result = step();
    this.#blocks.pop();
    return result;
  }
}
