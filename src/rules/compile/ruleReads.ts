import type { ProductNames } from '../../model/names.ts';
import { ANALYSED, headerSource, isFromBody } from '../decide/conditionIndex.ts';
import type { Block, Expression, Statement } from '../language/ast.ts';
import { isPureMethod, isPureProperty, libraryClass } from '../library/library.ts';
import type { DependsOn, MethodTable } from '../library/methodTable.ts';
import { literalText, objectTables } from './requestExpressions.ts';

/**
 * Sources of a request that the rule's texts read; null if they read anything else, or if equal values may lead to
 * different results, according to the method tables.
 *
 * `result` and `state` contain values from earlier rules of the request, so they follow from what these read.
 * @param isDeny true if the rule denies: then it also depends on whether the body was analyzed
 */
export function ruleReads(blocks: readonly Block[], isDeny: boolean, names: ProductNames): readonly string[] | null {
  const finder = new ReadFinder(names);
  if (!blocks.every((block) => finder.addBlock(block))) return null;
  const sources = [...finder.sources];
  return isDeny && sources.some(isFromBody) ? [...sources, ANALYSED] : sources;
}

/** Collects sources. Each `add` returns true if its expression depends only on values of the request. */
class ReadFinder {
  readonly sources = new Set<string>();
  readonly #objects: ReadonlyMap<string, MethodTable>;

  readonly #names: ProductNames;

  constructor(names: ProductNames) {
    this.#names = names;
    this.#objects = objectTables(names);
  }

  addBlock({ statements }: Block): boolean {
    return statements.every((statement) => this.#addStatement(statement));
  }

  #addStatement(statement: Statement): boolean {
    switch (statement.type) {
      case 'expression':
        return this.#add(statement.expression);
      case 'return':
        return statement.value === null || this.#add(statement.value);
      case 'if':
        return (
          this.#add(statement.test) &&
          this.addBlock(statement.yes) &&
          (statement.no === null || this.addBlock(statement.no))
        );
      default:
        return false;
    }
  }

  #addAll(expressions: readonly Expression[]): boolean {
    return expressions.every((each) => this.#add(each));
  }

  #add(expression: Expression): boolean {
    switch (expression.type) {
      case 'literal':
      case 'empty':
        return true;
      case 'name':
        return expression.name === 'result' || expression.name === 'state';
      case 'not':
      case 'negate':
        return this.#add(expression.operand);
      case 'binary':
        return this.#add(expression.left) && this.#add(expression.right);
      case 'logical':
        return this.#addAll(expression.operands);
      case 'ternary':
        return this.#addAll([expression.test, expression.yes, expression.no]);
      case 'list':
        return this.#addAll(expression.items);
      case 'new':
        return this.#addMethod(libraryClass(expression.className)?.constructors, 'new', expression.args);
      case 'property':
        return this.#addProperty(expression);
      case 'call':
        return this.#addCall(expression);
      default:
        return false;
    }
  }

  #addProperty({ target, name }: Extract<Expression, { type: 'property' }>): boolean {
    const object = target.type === 'name' ? this.#objects.get(target.name) : undefined;
    if (object === undefined) return isPureProperty(name) && this.#add(target);
    const getter = object.getter(name);
    return getter !== null && this.#addMethod(object, getter.name, []);
  }

  #addCall({ target, name, args }: Extract<Expression, { type: 'call' }>): boolean {
    const named = target.type === 'name' ? target.name : null;
    const table = named === null ? undefined : (this.#objects.get(named) ?? libraryClass(named)?.statics);
    if (table !== undefined) return this.#addMethod(table, name, args);
    return isPureMethod(name) && this.#add(target) && this.#addAll(args);
  }

  #addMethod(table: MethodTable | undefined, name: string, args: readonly Expression[]): boolean {
    const overloads = table?.get(name);
    if (overloads === undefined || !this.#addAll(args)) return false;
    return overloads.methods.every(({ dependsOn }) => this.#addDependence(dependsOn, args));
  }

  #addDependence(dependsOn: DependsOn, args: readonly Expression[]): boolean {
    if (dependsOn === 'operands') return true;
    if (typeof dependsOn === 'object') {
      this.sources.add(dependsOn.reads);
      return true;
    }
    const header = dependsOn === 'header' ? literalText(args[0]) : null;
    if (header === null) return false;
    this.sources.add(headerSource(header, this.#names));
    return true;
  }
}
