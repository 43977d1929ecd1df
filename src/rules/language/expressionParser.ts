import type { ProductNames } from '../../model/names.ts';
import type { BinaryOperator, Expression } from './ast.ts';
import type { Token } from './lexer.ts';
import { CompileError, UnavailableError } from './source.ts';
import { TokenReader } from './tokenReader.ts';
import { bindingOf, castHint, isReservedWord, isTypeName } from './vocabulary.ts';

/** Maximum height of an expression's tree: long sums and chains of calls grow to the left. */
const MAX_HEIGHT = 500;

/** Parses expressions; the parser that extends it parses statements. */
export class ExpressionParser extends TokenReader {
  readonly #names: ProductNames;

  constructor(tokens: readonly Token[], names: ProductNames) {
    super(tokens);
    this.#names = names;
  }

  protected expression(): Expression {
    return this.nested(() => {
      const test = this.#binary(0);
      if (!this.at('?')) return test;
      const { offset } = this.advance();
      if (this.at(':')) throw new CompileError('?: needs a value between ? and :', offset);
      const yes = this.expression();
      this.expect(':', 'after the value that follows ?');
      const no = this.expression();
      return this.#node({ type: 'ternary', test, yes, no, offset, depth: 0 }, [test, yes, no]);
    });
  }

  #binary(minimum: number): Expression {
    let left = this.#unary();
    for (;;) {
      const token = this.peek();
      const binding = token.type === 'literal' ? null : bindingOf(token.text);
      if (binding === null || binding.left < minimum) return left;
      this.advance();
      if (binding.operator === 'is') left = this.#instanceOf(left, token.offset);
      else {
        const right = this.nested(() => this.#binary(binding.right));
        left = this.#combine(binding.operator, left, right, token.offset);
      }
    }
  }

  #instanceOf(left: Expression, offset: number): Expression {
    const name = this.qualifiedName('a class name, as in x is String');
    const right: Expression = { type: 'name', name, offset, depth: 1 };
    return this.#node({ type: 'binary', operator: 'is', left, right, offset, depth: 0 }, [left]);
  }

  #combine(operator: BinaryOperator | '&&' | '||', left: Expression, right: Expression, offset: number): Expression {
    if (operator !== '&&' && operator !== '||') {
      return this.#node({ type: 'binary', operator, left, right, offset, depth: 0 }, [left, right]);
    }
    // Chains are one node, so that a list of a thousand alternatives is not a thousand levels deep.
    const isChain = left.type === 'logical' && left.operator === operator && !this.#grouped.has(left);
    const operands: Expression[] = isChain ? left.operands : [left];
    const isLong = operands.length > 1;
    // The node on the left is dropped: its list is reused.
    operands.push(right);
    const depth = Math.max(left.depth, right.depth + 1) + (isLong ? 0 : 1);
    return this.#checked({ type: 'logical', operator, operands, offset, depth });
  }

  /** Expressions in parentheses: never merged into a surrounding chain. */
  readonly #grouped = new WeakSet<Expression>();

  #unary(): Expression {
    const token = this.peek();
    if (this.accept('!')) {
      const operand = this.nested(() => this.#unary());
      if (startsWithLiteral(operand) && !this.#grouped.has(operand)) {
        throw new CompileError('! cannot be applied to a literal; put what follows in parentheses', token.offset);
      }
      return this.#node({ type: 'not', operand, offset: token.offset, depth: 0 }, [operand]);
    }
    if (this.accept('-')) {
      const operand = this.nested(() => this.#unary());
      return this.#node({ type: 'negate', operand, offset: token.offset, depth: 0 }, [operand]);
    }
    if (this.at('isdef')) {
      this.advance();
      return { type: 'isdef', name: this.variableName('after isdef'), offset: token.offset, depth: 1 };
    }
    return this.#postfix();
  }

  #postfix(): Expression {
    const start = this.peek();
    let left = this.#primary();
    const isNumber = start.type === 'literal' && typeof start.value !== 'string';
    for (;;) {
      const token = this.peek();
      if (token.text === '.' || token.text === '.?') {
        if (isNumber && left.type === 'literal') {
          throw new CompileError('a number needs parentheses before a method call, as in (5).toString()', token.offset);
        }
        this.advance();
        left = this.#member(left, token.text === '.?');
      } else if (token.text === '[') {
        this.advance();
        const key = this.expression();
        this.expect(']', 'after the index');
        left = this.#node({ type: 'index', target: left, key, offset: token.offset, depth: 0 }, [left, key]);
      } else if (token.text === '(' && left.type === 'name') {
        throw new UnavailableError(
          `there is no function ${left.name}; methods are called on an object or class`,
          left.offset,
        );
      } else {
        return left;
      }
    }
  }

  #member(target: Expression, safe: boolean): Expression {
    const token = this.advance();
    if (token.type !== 'name')
      throw new CompileError('a property or method name is missing after the dot', token.offset);
    if (!this.at('(')) {
      return this.#node({ type: 'property', target, name: token.text, safe, offset: token.offset, depth: 0 }, [target]);
    }
    this.advance();
    const args = this.#list(')');
    return this.#node({ type: 'call', target, name: token.text, args, safe, offset: token.offset, depth: 0 }, [
      target,
      ...args,
    ]);
  }

  #list(close: string): Expression[] {
    const items: Expression[] = [];
    while (!this.accept(close)) {
      items.push(this.expression());
      if (this.accept(close)) break;
      this.expect(',', `or ${close} after an element`);
    }
    return items;
  }

  #primary(): Expression {
    const token = this.peek();
    if (token.type === 'literal') {
      this.advance();
      return { type: 'literal', value: token.value, offset: token.offset, depth: 1 };
    }
    if (token.type === 'name') return this.#word(token);
    if (this.accept('(')) return this.#group(token.offset);
    if (this.accept('[')) return this.#bracket(token.offset);
    if (token.text === '{')
      throw new UnavailableError('arrays in braces do not exist; write a list as in ["a", "b"]', token.offset);
    throw this.unexpected('a value is missing');
  }

  #group(offset: number): Expression {
    if (this.accept(')')) return { type: 'literal', value: null, offset, depth: 1 };
    const inner = this.expression();
    this.expect(')', 'after the expression in parentheses');
    if (inner.type === 'name' && isTypeName(inner.name) && this.#startsOperand()) {
      throw new UnavailableError(`casts do not exist; use ${castHint(inner.name)}`, inner.offset);
    }
    const copy = { ...inner };
    this.#grouped.add(copy);
    return copy;
  }

  #startsOperand(): boolean {
    const token = this.peek();
    return token.type === 'literal' || token.text === '(' || (token.type === 'name' && bindingOf(token.text) === null);
  }

  #word(token: Token): Expression {
    this.advance();
    const { offset, text } = token;
    switch (text) {
      case 'true':
      case 'false':
        return { type: 'literal', value: text === 'true', offset, depth: 1 };
      case 'null':
      case 'nil':
        return { type: 'literal', value: null, offset, depth: 1 };
      case 'empty':
        return { type: 'empty', offset, depth: 1 };
      case 'new':
        return this.#construct(offset);
      default:
    }
    if (isReservedWord(text)) throw new UnavailableError(`${text} cannot be used here`, offset);
    return { type: 'name', name: this.#names.ownObject(text), offset, depth: 1 };
  }

  #construct(offset: number): Expression {
    const className = this.qualifiedName('a class name after new');
    if (this.at('<'))
      throw new UnavailableError('type parameters must be left out: write new HashSet()', this.peek().offset);
    if (this.at('['))
      throw new UnavailableError('arrays cannot be made; write a list as in ["a", "b"]', this.peek().offset);
    this.expect('(', `after new ${className}`);
    const args = this.#list(')');
    return this.#node({ type: 'new', className, args, offset, depth: 0 }, args);
  }

  /** `a.b.C` as one name. */
  protected qualifiedName(what: string): string {
    const first = this.advance();
    if (first.type !== 'name' || isReservedWord(first.text)) throw new CompileError(`${what} is missing`, first.offset);
    let name = first.text;
    while (this.at('.') && this.peek(1).type === 'name' && this.peek(2).text !== '(') {
      this.advance();
      name += `.${this.advance().text}`;
    }
    if (this.at('.') && this.peek(1).type === 'name' && /^[a-z]/.test(name.split('.').at(-1) ?? '')) {
      this.advance();
      name += `.${this.advance().text}`;
    }
    return name;
  }

  protected variableName(where: string): string {
    const token = this.advance();
    if (token.type !== 'name' || isReservedWord(token.text)) {
      throw new CompileError(`the name of a variable is missing ${where}`, token.offset);
    }
    return token.text;
  }

  #bracket(offset: number): Expression {
    if (this.accept(':')) {
      this.expect(']', 'after [: of an empty map');
      return { type: 'map', entries: [], offset, depth: 1 };
    }
    if (this.accept(']')) return { type: 'list', items: [], offset, depth: 1 };
    const first = this.expression();
    if (!this.at(':')) return this.#listLiteral(first, offset);
    const entries: { key: Expression; value: Expression }[] = [];
    let key = first;
    for (;;) {
      this.expect(':', 'between key and value');
      entries.push({ key, value: this.expression() });
      if (this.accept(']')) break;
      this.expect(',', 'or ] after an entry');
      if (this.accept(']')) break;
      key = this.expression();
    }
    return this.#node(
      { type: 'map', entries, offset, depth: 0 },
      entries.flatMap((entry) => [entry.key, entry.value]),
    );
  }

  #listLiteral(first: Expression, offset: number): Expression {
    const items = [first];
    if (!this.accept(']')) {
      this.expect(',', 'or ] after an element');
      items.push(...this.#list(']'));
    }
    return this.#node({ type: 'list', items, offset, depth: 0 }, items);
  }

  #node(node: Expression, children: readonly Expression[]): Expression {
    let depth = 0;
    for (const child of children) depth = Math.max(depth, child.depth);
    return this.#checked({ ...node, depth: depth + 1 });
  }

  #checked(node: Expression): Expression {
    if (node.depth > MAX_HEIGHT) throw new UnavailableError(`more than ${MAX_HEIGHT} operations in a row`, node.offset);
    return node;
  }
}

function startsWithLiteral(expression: Expression): boolean {
  if (expression.type === 'call' || expression.type === 'property' || expression.type === 'index') {
    return startsWithLiteral(expression.target);
  }
  return expression.type === 'literal' && typeof expression.value !== 'boolean';
}
