import type { ProductNames } from '../../model/names.ts';
import type { Block, Expression, Statement } from '../language/ast.ts';
import { expressionsIn } from '../language/children.ts';
import { kindsWithMethods, libraryClass, methodsOfKind } from '../library/library.ts';
import { kindName } from '../values/value.ts';
import { operatorDifference } from './operatorDifference.ts';
import { StaticKinds } from './staticKinds.ts';

/** A position with a different or no meaning in Trino Gateway. */
export interface TextDifference {
  readonly message: string;
  readonly offset: number;
}

const MAX_DIFFERENCES = 20;

const of = (methods: string, ...classes: readonly string[]) => ({ methods: methods.split(' '), classes });

/** Methods here that only some of Java's classes of their kind have. */
const OF_CLASSES: Readonly<Record<string, readonly ReturnType<typeof of>[]>> = {
  list: [of('element offer peek peekFirst peekLast poll pollFirst pollLast pop push', 'LinkedList', 'ArrayDeque')],
  set: [of('first last', 'TreeSet')],
  map: [of('firstKey lastKey', 'TreeMap'), of('getProperty setProperty', 'Properties')],
};

/**
 * Lists code that means something else in Trino Gateway (docs/rules.md#differences-that-are-warned-of), each with the
 * text to write instead. Only types that the text states are known; other code is not checked.
 */
export function textDifferences(
  block: Block,
  part: 'condition' | 'action',
  names: ProductNames,
): readonly TextDifference[] {
  const finder = new DifferenceFinder(block, part, names);
  finder.addTopLevel(block);
  return finder.differences;
}

class DifferenceFinder {
  readonly differences: TextDifference[] = [];
  readonly #kinds: StaticKinds;
  readonly #part: 'condition' | 'action';
  readonly #names: ProductNames;
  readonly #variables = new Set<string>();

  constructor(block: Block, part: 'condition' | 'action', names: ProductNames) {
    this.#kinds = new StaticKinds(block, names);
    this.#part = part;
    this.#names = names;
  }

  addTopLevel(block: Block): void {
    for (const statement of block.statements) {
      const variable = assignedVariable(statement);
      if (variable === null || this.#variables.has(variable)) continue;
      this.#variables.add(variable);
      this.#add(
        `the variable ${variable} is outside of a block: Trino Gateway fails there, this gateway does not; write state.put("${variable}", …), or put the statements into a block such as if (true) { … }`,
        statement.offset,
      );
    }
    for (const expression of expressionsIn(block)) {
      const message = this.#messageFor(expression);
      if (message !== null) this.#add(message, expression.offset);
    }
  }

  #add(message: string, offset: number): void {
    if (this.differences.length < MAX_DIFFERENCES) this.differences.push({ message, offset });
  }

  #messageFor(expression: Expression): string | null {
    switch (expression.type) {
      case 'name':
        if (expression.name !== 'result' || this.#part !== 'condition') return null;
        return 'result in a condition: Trino Gateway has it in actions only and fails; use state';
      case 'binary': {
        const { operator, left, right } = expression;
        return operatorDifference(operator, this.#kinds.of(left).kind, this.#kinds.of(right).kind);
      }
      case 'call':
        return this.#methodDifference(expression.target, expression.name);
      default:
        return null;
    }
  }

  #methodDifference(target: Expression, name: string): string | null {
    const { queryPropertiesObject, requestUserObject } = this.#names;
    if (target.type === 'name') {
      if (target.name === queryPropertiesObject && name === 'errorMessage') {
        return 'errorMessage() does not exist in Trino Gateway, which fails there; getErrorMessage() is an Optional in both';
      }
      // Members of these are checked at compilation.
      if ([queryPropertiesObject, requestUserObject, 'request'].includes(target.name)) return null;
    }
    const { kind, javaClass } = this.#kinds.of(target);
    if (isClass(target)) return null;
    if (kind === null) {
      if (isKnownMethod(name)) return null;
      return `no value has a method ${name} here, so the rule fails when it comes to it; Trino Gateway may have one (docs/rules-library.md lists those of this gateway)`;
    }
    if (methodsOfKind(kind)?.get(name) === undefined) {
      return `${kindName(kind)} has no method ${name} here, so the rule fails when it comes to it; Trino Gateway may have one (docs/rules-library.md lists those of this gateway)`;
    }
    const limited = javaClass === null ? undefined : OF_CLASSES[kind]?.find(({ methods }) => methods.includes(name));
    if (limited === undefined || limited.classes.includes(javaClass ?? '')) return null;
    return `${javaClass} has no method ${name} in Trino Gateway, which fails there; ${limited.classes.map((each) => `new ${each}()`).join(' or ')} has it in both`;
  }
}

/** The variable that a statement declares or changes, or null. */
function assignedVariable(statement: Statement): string | null {
  if (statement.type === 'declare' || statement.type === 'increment') return statement.name;
  return statement.type === 'assign' && statement.target.type === 'name' ? statement.target.name : null;
}

/** `String`, `java.util.Optional`: their static methods are checked at compilation. */
function isClass(target: Expression): boolean {
  if (target.type === 'property') return /^[A-Z]/.test(target.name) && isPackage(target.target);
  return target.type === 'name' && libraryClass(target.name) !== undefined;
}

function isPackage(expression: Expression): boolean {
  if (expression.type === 'property') return isPackage(expression.target);
  return expression.type === 'name' && expression.name === 'java';
}

let methodNames: ReadonlySet<string> | null = null;

function isKnownMethod(name: string): boolean {
  methodNames ??= new Set(kindsWithMethods().flatMap((kind) => methodsOfKind(kind)?.names() ?? []));
  return methodNames.has(name);
}
