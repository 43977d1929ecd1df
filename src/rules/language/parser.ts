import type { ProductNames } from '../../model/names.ts';
import type { AssignmentOperator, Block, Expression, Statement } from './ast.ts';
import type { CompileBudget } from './compileBudget.ts';
import { ExpressionParser } from './expressionParser.ts';
import { tokenize } from './lexer.ts';
import { CompileError, UnavailableError } from './source.ts';
import { isReservedWord } from './vocabulary.ts';

const ASSIGNMENTS = new Set(['=', '+=', '-=', '*=', '/=', '%=']);

/** Statements of MVEL and Java that are not supported. */
const REJECTED_STATEMENTS: Readonly<Record<string, string>> = {
  import: 'nothing can be imported; the classes of the language are there by their short names',
  import_static: 'nothing can be imported; the classes of the language are there by their short names',
  package: 'packages do not exist',
  def: 'functions cannot be written',
  function: 'functions cannot be written',
  proto: 'prototypes do not exist',
  with: 'with does not exist; call the methods one after the other',
  assert: 'assert does not exist; use if',
  switch: 'switch does not exist; use if, else if and else',
  try: 'try does not exist; a rule that fails is skipped',
  throw: 'throw does not exist; use a declarative deny to refuse a query',
  until: 'until does not exist; use while',
  break: 'break does not exist; use return',
  continue: 'continue does not exist; use if',
  else: 'else without if',
};

class Parser extends ExpressionParser {
  program(): Block {
    return this.#statements(() => this.peek().type === 'end');
  }

  #statements(atEnd: () => boolean): Block {
    const statements: Statement[] = [];
    while (!atEnd()) {
      if (this.accept(';')) continue;
      const statement = this.#statement();
      statements.push(statement);
      if (endsWithBlock(statement) || atEnd()) continue;
      if (!this.accept(';')) throw this.#undivided(statement);
    }
    return { statements };
  }

  /** The error for a statement after another one without `;`. */
  #undivided(before: Statement): CompileError {
    const error = this.unexpected('; is missing before the next statement');
    const { type, offset } = this.peek();
    if (!(type === 'name' || type === 'literal') || !endsWithOperand(before)) return error;
    return new UnavailableError(
      `${error.message}. Trino Gateway runs only what stands before it, without a word; divide statements by ;, not by lines alone`,
      offset,
    );
  }

  #statement(): Statement {
    const token = this.peek();
    if (token.type === 'name') {
      switch (token.text) {
        case 'if':
          return this.nested(() => this.#if());
        case 'foreach':
        case 'for':
          return this.nested(() => this.#for());
        case 'while':
          return this.nested(() => this.#while());
        case 'do':
          return this.nested(() => this.#doWhile());
        case 'return':
          return this.#return();
        default:
      }
      const rejection = Object.hasOwn(REJECTED_STATEMENTS, token.text) ? REJECTED_STATEMENTS[token.text] : undefined;
      if (rejection !== undefined) {
        const ErrorType = token.text === 'switch' || token.text === 'else' ? CompileError : UnavailableError;
        throw new ErrorType(rejection, token.offset);
      }
      if (this.#declares()) return this.#declaration();
    }
    return this.#simple();
  }

  #simple(): Statement {
    const { offset } = this.peek();
    if (this.at('++') || this.at('--')) {
      const { text } = this.advance();
      const name = this.variableName(`after ${text}`);
      return { type: 'increment', name, by: text === '++' ? 1 : -1, prefix: true, offset };
    }
    const expression = this.expression();
    const operator = this.peek();
    if (expression.type === 'name' && (operator.text === '++' || operator.text === '--')) {
      this.advance();
      return { type: 'increment', name: expression.name, by: operator.text === '++' ? 1 : -1, prefix: false, offset };
    }
    if (operator.type === 'operator' && ASSIGNMENTS.has(operator.text)) {
      this.#checkTarget(expression);
      this.advance();
      const value = this.expression();
      return { type: 'assign', target: expression, operator: operator.text as AssignmentOperator, value, offset };
    }
    return { type: 'expression', expression, offset };
  }

  #checkTarget(target: Expression): void {
    if (target.type === 'name' || target.type === 'index') return;
    if (target.type === 'property' && !target.safe) return;
    throw new CompileError('only a variable, map.key or list[index] can be assigned to', target.offset);
  }

  #declares(): boolean {
    if (this.at('var')) return true;
    const [next, after] = [this.peek(1), this.peek(2)];
    if (next.type !== 'name' || isReservedWord(next.text) || isReservedWord(this.peek().text)) return false;
    return after.type === 'end' || ['=', ';', ':', '}'].includes(after.text);
  }

  #declaration(): Statement {
    const { offset } = this.peek();
    const javaType = this.advance().text;
    const name = this.variableName(`after ${javaType}`);
    const value = this.accept('=') ? this.expression() : null;
    return { type: 'declare', javaType, name, value, offset };
  }

  #if(): Statement {
    const { offset } = this.advance();
    const test = this.#condition('if');
    const yes = this.#body('if');
    if (!this.accept('else')) return { type: 'if', test, yes, no: null, offset };
    const no = this.at('if') ? { statements: [this.nested(() => this.#if())] } : this.#body('else');
    return { type: 'if', test, yes, no, offset };
  }

  #condition(word: string): Expression {
    this.expect('(', `after ${word}`);
    const test = this.expression();
    this.expect(')', `after the condition of ${word}`);
    return test;
  }

  #body(word: string): Block {
    if (this.accept('{')) {
      const block = this.#statements(() => this.at('}') || this.peek().type === 'end');
      this.expect('}', `at the end of the block after ${word}`);
      return block;
    }
    const statement = this.#statement();
    if (!endsWithBlock(statement) && this.peek().type !== 'end' && !this.at('}')) {
      this.expect(';', `after the statement of ${word}`);
    }
    return { statements: [statement] };
  }

  #for(): Statement {
    const { offset, text } = this.advance();
    this.expect('(', `after ${text}`);
    if (this.peek(1).text === ':' || (this.peek().type === 'name' && this.peek(2).text === ':')) {
      return this.#foreach(offset, text);
    }
    const start = this.at(';') ? null : this.#declares() ? this.#declaration() : this.#simple();
    this.expect(';', 'after the start of for');
    const test = this.at(';') ? null : this.expression();
    this.expect(';', 'after the condition of for');
    const update = this.at(')') ? null : this.#simple();
    this.expect(')', 'after the update of for');
    return { type: 'for', start, test, update, body: this.#body(text), offset };
  }

  #foreach(offset: number, word: string): Statement {
    const javaType = this.peek(1).text === ':' ? null : this.advance().text;
    const name = this.variableName(`in ${word} (name : list)`);
    this.expect(':', 'after the variable');
    const items = this.expression();
    this.expect(')', `after the list of ${word}`);
    return { type: 'foreach', javaType, name, items, body: this.#body(word), offset };
  }

  #while(): Statement {
    const { offset } = this.advance();
    const test = this.#condition('while');
    return { type: 'while', test, body: this.#body('while'), testFirst: true, offset };
  }

  #doWhile(): Statement {
    const { offset } = this.advance();
    const body = this.#body('do');
    this.expect('while', 'after the block of do');
    return { type: 'while', test: this.#condition('while'), body, testFirst: false, offset };
  }

  #return(): Statement {
    const { offset } = this.advance();
    const ends = this.at(';') || this.at('}') || this.peek().type === 'end';
    return { type: 'return', value: ends ? null : this.expression(), offset };
  }
}

/** True if the statement needs no `;`. */
function endsWithBlock(statement: Statement): boolean {
  return (
    statement.type === 'if' ||
    statement.type === 'foreach' ||
    statement.type === 'for' ||
    (statement.type === 'while' && statement.testFirst)
  );
}

/** True if Trino Gateway, after such a statement, ignores code that follows without `;` instead of rejecting it. */
function endsWithOperand(statement: Statement): boolean {
  return statement.type === 'expression' && isOpenEnded(statement.expression);
}

function isOpenEnded(expression: Expression): boolean {
  switch (expression.type) {
    case 'call':
    case 'property':
    case 'index':
    case 'list':
    case 'new':
      return true;
    case 'binary':
      return isOpenEnded(expression.right);
    case 'logical':
      return isOpenEnded(expression.operands.at(-1) as Expression);
    default:
      return false;
  }
}

/**
 * Parses the text of a condition or action.
 * @param budget of the rule
 * @param names product names of the rule objects
 * @throws CompileError with the position of the mistake
 */
export function parse(text: string, budget: CompileBudget, names: ProductNames): Block {
  budget.countText(text);
  return new Parser(tokenize(text, budget), names).program();
}
