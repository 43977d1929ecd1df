import type { ProductNames } from '../../model/names.ts';
import type { CompiledRule } from '../compile/compiledRule.ts';
import { isName, listSource, memberOf, textSource } from '../compile/requestExpressions.ts';
import { ANALYSED, isFromBody } from '../compile/requestValues.ts';
import type { Block, Expression, Statement } from '../language/ast.ts';
import { CompileBudget } from '../language/compileBudget.ts';
import { parse } from '../language/parser.ts';

/** Methods and getters of texts, optionals, sets and maps whose outcome only depends on what they are called with. */
const PURE_METHODS = new Set([
  ...[
    'contains',
    'containsKey',
    'startsWith',
    'endsWith',
    'equals',
    'equalsIgnoreCase',
    'matches',
    'indexOf',
    'length',
  ],
  ...['toLowerCase', 'toUpperCase', 'trim', 'strip', 'substring', 'replace', 'concat', 'isEmpty', 'isBlank', 'size'],
  ...['isPresent', 'get', 'orElse', 'put'],
]);
const PURE_GETTERS = new Set(['present', 'empty', 'blank']);

const known = new WeakMap<CompiledRule, readonly string[] | null>();

/**
 * All that condition and actions of a rule read of a request, as sources; null when they read something else, or when
 * equal values may lead to something else another time. `result` and `state` hold what earlier rules of the same request
 * put into them, so they follow from what those read. Found out of the texts when the rule is asked for the first time:
 * of thousands of rules few are.
 */
export function readSources(rule: CompiledRule, names: ProductNames): readonly string[] | null {
  let sources = known.get(rule);
  if (sources === undefined) {
    sources = findSources(rule, names);
    known.set(rule, sources);
  }
  return sources;
}

function findSources({ definition }: CompiledRule, names: ProductNames): readonly string[] | null {
  const finder = new SourceFinder(names);
  const texts = [definition.condition, ...definition.actions];
  const budget = new CompileBudget();
  if (!texts.every(({ text }) => finder.addBlock(parse(text, budget)))) return null;
  const sources = [...finder.found];
  return definition.deny !== null && sources.some(isFromBody) ? [...sources, ANALYSED] : sources;
}

class SourceFinder {
  readonly found = new Set<string>();
  readonly #names: ProductNames;

  constructor(names: ProductNames) {
    this.#names = names;
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
      case 'property':
        return this.#addSource(expression) || (PURE_GETTERS.has(expression.name) && this.#add(expression.target));
      case 'call':
        return this.#addSource(expression) || this.#addCall(expression);
      default:
        return false;
    }
  }

  /** An expression that is a value of the request. */
  #addSource(expression: Expression): boolean {
    const isUser = memberOf(expression, this.#names.requestUserObject) === 'getUser';
    const source = isUser ? 'user' : (textSource(expression, this.#names) ?? listSource(expression, this.#names));
    if (source === null) return false;
    this.found.add(source);
    return true;
  }

  #addCall({ target, name, args }: Extract<Expression, { type: 'call' }>): boolean {
    if (!this.#addAll(args)) return false;
    if (name === 'userExistsAndEquals' && isName(target, this.#names.requestUserObject)) {
      this.found.add('user');
      return true;
    }
    if (name === 'tablesContains' && isName(target, this.#names.queryPropertiesObject)) {
      this.found.add('table');
      return true;
    }
    return PURE_METHODS.has(name) && this.#add(target);
  }
}
