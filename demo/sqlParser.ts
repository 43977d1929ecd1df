import { type Expression, mismatch, type Relation, type Select, type SelectItem, type Token } from './sqlSyntax.ts';

const reserved = new Set(
  'select from where group order by limit and or not in is like as table values union having on join'.split(' '),
);

/** Recursive descent over the tokens of one statement. */
export class SqlParser {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  peek(ahead = 0): Token {
    const token = this.#tokens[Math.min(this.#at + ahead, this.#tokens.length - 1)];
    if (token === undefined) throw new Error('a token list ends with an end token');
    return token;
  }

  next(): Token {
    const token = this.peek();
    this.#at += 1;
    return token;
  }

  /** Whether the next tokens are these words or symbols, in any letter case. */
  sees(...words: readonly string[]): boolean {
    return words.every((word, i) => {
      const token = this.peek(i);
      return (token.kind === 'word' || token.kind === 'symbol') && token.text.toLowerCase() === word;
    });
  }

  /** Takes these words or symbols when they come next. */
  takes(...words: readonly string[]): boolean {
    if (!this.sees(...words)) return false;
    this.#at += words.length;
    return true;
  }

  expect(...words: readonly string[]): void {
    for (const word of words) if (!this.takes(word)) throw mismatch(this.peek(), `'${word.toUpperCase()}'`);
  }

  end(): void {
    if (this.peek().kind !== 'end') throw mismatch(this.peek(), '<EOF>');
  }

  identifier(): string {
    const token = this.peek();
    if (token.kind === 'quoted' || (token.kind === 'word' && !reserved.has(token.text.toLowerCase()))) {
      this.#at += 1;
      return token.text.toLowerCase();
    }
    throw mismatch(token, '<identifier>');
  }

  /** `a.b.c` */
  qualifiedName(): readonly string[] {
    const parts = [this.identifier()];
    while (this.takes('.')) parts.push(this.identifier());
    return parts;
  }

  list<T>(item: () => T): readonly T[] {
    const items = [item()];
    while (this.takes(',')) items.push(item());
    return items;
  }

  /** `SELECT …`, `VALUES …` or `TABLE name`. */
  query(): Select {
    if (this.takes('values')) {
      return this.#tail({
        items: [{}],
        from: { kind: 'values', rows: this.list(() => this.#valuesRow()) },
        groupBy: [],
      });
    }
    if (this.sees('table') && !this.sees('table', '(')) {
      this.next();
      const token = this.peek();
      return this.#tail({ items: [{}], from: { kind: 'table', name: this.qualifiedName(), token }, groupBy: [] });
    }
    this.expect('select');
    const items = this.list(() => this.#selectItem());
    const from = this.takes('from') ? this.#relation() : undefined;
    const where = this.takes('where') ? this.expression() : undefined;
    const groupBy = this.takes('group', 'by') ? this.list(() => this.expression()) : [];
    return this.#tail({
      items,
      ...(from === undefined ? {} : { from }),
      ...(where === undefined ? {} : { where }),
      groupBy,
    });
  }

  #tail(query: Omit<Select, 'orderBy' | 'limit'>): Select {
    const orderBy = this.takes('order', 'by')
      ? this.list(() => {
          const expression = this.expression();
          const descending = this.takes('desc');
          if (!descending) this.takes('asc');
          return { expression, descending };
        })
      : [];
    if (!this.takes('limit')) return { ...query, orderBy };
    const token = this.next();
    if (token.kind !== 'number' || !/^\d+$/.test(token.text)) throw mismatch(token, '<integer>');
    return { ...query, orderBy, limit: Number(token.text) };
  }

  #valuesRow(): readonly Expression[] {
    if (!this.sees('(')) return [this.expression()];
    this.expect('(');
    const row = this.list(() => this.expression());
    this.expect(')');
    return row;
  }

  #selectItem(): SelectItem {
    if (this.takes('*')) return {};
    const expression = this.expression();
    if (this.takes('as')) return { expression, alias: this.identifier() };
    const token = this.peek();
    const named = token.kind === 'quoted' || (token.kind === 'word' && !reserved.has(token.text.toLowerCase()));
    return named ? { expression, alias: this.identifier() } : { expression };
  }

  #relation(): Relation {
    const token = this.peek();
    if (this.takes('(')) {
      const query = this.query();
      this.expect(')');
      if (this.takes('as') || this.peek().kind === 'word') this.#correlation();
      return { kind: 'select', query };
    }
    if (!this.takes('table', '(')) {
      const name = this.qualifiedName();
      this.#correlation();
      return { kind: 'table', name, token };
    }
    const name = this.identifier();
    this.expect('(');
    const args = new Map(
      this.list((): [string, Expression] => {
        const argument = this.identifier();
        this.expect('=>');
        return [argument, this.expression()];
      }),
    );
    this.expect(')', ')');
    return { kind: 'function', name, args, token };
  }

  #correlation(): void {
    const token = this.peek();
    if (this.takes('as') || (token.kind === 'word' && !reserved.has(token.text.toLowerCase()))) this.identifier();
  }

  expression(): Expression {
    return this.#binary(0);
  }

  #call(name: string, token: Token, ...args: readonly Expression[]): Expression {
    return { kind: 'call', name, args, token };
  }

  static readonly #levels: readonly (readonly string[])[] = [
    ['or'],
    ['and'],
    ['=', '<>', '!=', '<=', '>=', '<', '>'],
    ['+', '-', '||'],
    ['*', '/', '%'],
  ];

  #binary(level: number): Expression {
    const operators = SqlParser.#levels[level];
    if (operators === undefined) return this.#unary();
    if (level === 2 && this.sees('not')) {
      const token = this.next();
      return this.#call('not', token, this.#binary(level));
    }
    let left = this.#binary(level + 1);
    for (;;) {
      const token = this.peek();
      const operator = operators.find((each) => this.takes(each));
      if (operator !== undefined) left = this.#call(operator, token, left, this.#binary(level + 1));
      else if (level === 2) {
        const tested = this.#predicate(left, token);
        if (tested === undefined) return left;
        left = tested;
      } else return left;
    }
  }

  /** `IS [NOT] NULL`, `[NOT] IN (…)`, `[NOT] LIKE …` after an expression. */
  #predicate(left: Expression, token: Token): Expression | undefined {
    const negate = (positive: Expression, negative: boolean) =>
      negative ? this.#call('not', token, positive) : positive;
    if (this.takes('is')) {
      const negative = this.takes('not');
      this.expect('null');
      return negate(this.#call('is null', token, left), negative);
    }
    const negative = this.sees('not', 'in') || this.sees('not', 'like');
    if (negative) this.next();
    if (this.takes('in')) {
      this.expect('(');
      const choices = this.list(() => this.expression());
      this.expect(')');
      return negate(this.#call('in', token, left, ...choices), negative);
    }
    if (this.takes('like')) return negate(this.#call('like', token, left, this.#binary(3)), negative);
    return undefined;
  }

  #unary(): Expression {
    const token = this.peek();
    if (this.takes('-')) return this.#call('negate', token, this.#unary());
    if (this.takes('+')) return this.#unary();
    if (this.takes('(')) {
      const inner = this.expression();
      this.expect(')');
      return inner;
    }
    if (token.kind === 'string') {
      this.next();
      return { kind: 'literal', value: token.text, type: `varchar(${token.text.length})` };
    }
    if (token.kind === 'number') {
      this.next();
      return { kind: 'literal', value: Number(token.text), type: numberType(token.text) };
    }
    if (this.takes('null')) return { kind: 'literal', value: null, type: 'unknown' };
    if (this.takes('true')) return { kind: 'literal', value: true, type: 'boolean' };
    if (this.takes('false')) return { kind: 'literal', value: false, type: 'boolean' };
    if (token.kind !== 'word' && token.kind !== 'quoted') throw mismatch(token, '<expression>');
    const path = this.qualifiedName();
    const name = path.at(-1) ?? '';
    if (!this.takes('(')) return { kind: 'column', name, token };
    if (this.takes(')')) return this.#call(name, token);
    if (this.takes('*')) {
      this.expect(')');
      return this.#call(name, token);
    }
    const args = this.list(() => this.expression());
    this.expect(')');
    return this.#call(name, token, ...args);
  }
}

/** Type of a number literal, as the engine types it. */
function numberType(text: string): string {
  if (/[eE]/.test(text)) return 'double';
  if (!text.includes('.')) return Number(text) > 2_147_483_647 ? 'bigint' : 'integer';
  const [whole = '', fraction = ''] = text.split('.');
  const digits = whole.replace(/^0+/, '').length + fraction.length;
  return `decimal(${Math.max(digits, 1)},${fraction.length})`;
}
