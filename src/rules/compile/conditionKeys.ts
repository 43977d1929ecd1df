import type { ProductNames } from '../../model/names.ts';
import { isFromBody } from '../decide/conditionIndex.ts';
import type { Block, Expression } from '../language/ast.ts';
import { tableKey } from '../requestObjects.ts';
import { isUser, listSource, literalText, textSource } from './requestExpressions.ts';

/** A condition's precondition: one of these values of a request. */
export interface IndexKey {
  /** Source of the value, e.g. `header:x-engine-source` or `table`. */
  readonly source: string;
  /** Null: any value. */
  readonly value: string | null;
}

/**
 * Returns alternative preconditions of a condition; null if unknown.
 * @param isDeny true if its rule denies: a denial that reads a statement without analysis must fail, not be skipped
 */
export function neededKeys({ statements }: Block, isDeny: boolean, names: ProductNames): readonly IndexKey[] | null {
  const [only] = statements;
  if (statements.length !== 1 || only?.type !== 'expression') return null;
  const keys = new KeyFinder(names).of(only.expression);
  if (keys === null) return null;
  return !isDeny || keys.every(({ source }) => !isFromBody(source)) ? keys : null;
}

class KeyFinder {
  readonly #names: ProductNames;

  constructor(names: ProductNames) {
    this.#names = names;
  }

  of(expression: Expression): readonly IndexKey[] | null {
    if (expression.type === 'logical') {
      return expression.operator === '||' ? this.#any(expression.operands) : this.#all(expression.operands);
    }
    if (expression.type === 'binary' && expression.operator === '==') {
      return this.#equal(expression.left, expression.right) ?? this.#equal(expression.right, expression.left);
    }
    if (expression.type === 'binary' && expression.operator === '!=')
      return this.#notNull(expression.left, expression.right);
    if (expression.type === 'binary' && expression.operator === 'contains') {
      return (
        this.#collection(expression.left, expression.right) ??
        this.#listed(expression.left, expression.right) ??
        this.#within(expression.left, expression.right)
      );
    }
    return expression.type === 'call' ? this.#call(expression) : null;
  }

  /** Every alternative must be known, as any of them makes the condition true. */
  #any(operands: readonly Expression[]): readonly IndexKey[] | null {
    const keys: IndexKey[] = [];
    for (const operand of operands) {
      const operandKeys = this.of(operand);
      if (operandKeys === null) return null;
      keys.push(...operandKeys);
    }
    return keys;
  }

  /**
   * The first operand decides. Later operands may if all operands before them are known, as only known operands neither
   * fail nor change anything. Values are preferred to mere presence.
   */
  #all(operands: readonly Expression[]): readonly IndexKey[] | null {
    let best: readonly IndexKey[] | null = null;
    for (const operand of operands) {
      const keys = this.of(operand);
      if (keys === null) break;
      if (best === null || best.some(({ value }) => value === null)) best = keys;
    }
    return best;
  }

  #equal(value: Expression, literal: Expression): readonly IndexKey[] | null {
    const text = literalText(literal);
    const source = this.#single(value) ?? (text === '' ? null : this.#userOrBlank(value));
    if (source === null || text === null) return null;
    return [{ source, value: text }];
  }

  #notNull(value: Expression, literal: Expression): readonly IndexKey[] | null {
    if (literal.type !== 'literal' || literal.value !== null) return null;
    const source = this.#single(value);
    return source === null ? null : [{ source, value: null }];
  }

  /** `["a", "b"] contains value`. */
  #listed(list: Expression, value: Expression): readonly IndexKey[] | null {
    if (list.type !== 'list') return null;
    const texts = list.items.map(literalText);
    const source = this.#single(value) ?? (texts.includes('') ? null : this.#userOrBlank(value));
    if (source === null) return null;
    return texts.every((text) => text !== null) ? texts.map((text) => ({ source, value: text })) : null;
  }

  /** `request.getHeader("X-Tags") contains "x"`: null contains nothing. */
  #within(text: Expression, part: Expression): readonly IndexKey[] | null {
    const source = part.type === 'literal' ? this.#single(text) : null;
    return source === null ? null : [{ source, value: null }];
  }

  /** `query.getCatalogs() contains "x"`. */
  #collection(collection: Expression, value: Expression): readonly IndexKey[] | null {
    const text = literalText(value);
    const source = listSource(collection, this.#names);
    return text === null || source === null ? null : [{ source, value: text }];
  }

  #call(call: Extract<Expression, { type: 'call' }>): readonly IndexKey[] | null {
    const [arg] = call.args;
    if (call.name === 'isPresent' && call.args.length === 0 && !call.safe) {
      return isUser(call.target, this.#names) ? [{ source: 'user', value: null }] : null;
    }
    if (call.args.length !== 1 || arg === undefined || call.safe) return null;
    if (call.name === 'contains') return this.#collection(call.target, arg);
    // "x".equals(value) never fails, value.equals("x") does where value is null.
    if (call.name === 'equals') return call.target.type === 'literal' ? this.#equal(arg, call.target) : null;
    const text = literalText(arg);
    if (text === null || call.target.type !== 'name') return null;
    if (call.name === 'userExistsAndEquals' && call.target.name === this.#names.requestUserObject) {
      return [{ source: 'user', value: text }];
    }
    if (call.name === 'isInGroup' && call.target.name === this.#names.requestUserObject) {
      return [{ source: 'group', value: text }];
    }
    if (call.name === 'tablesContains' && call.target.name === this.#names.queryPropertiesObject) {
      const key = tableKey(text);
      return key === null ? [] : [{ source: 'table', value: key }];
    }
    return null;
  }

  /** Returns the source of an expression that returns one text of the request or null. */
  #single(expression: Expression): string | null {
    return textSource(expression, this.#names) ?? this.#userOr(expression, null);
  }

  /** `user.getUser().orElse("")`: without a user it is a text that only "" equals. */
  #userOrBlank(expression: Expression): string | null {
    return this.#userOr(expression, '');
  }

  #userOr(expression: Expression, absent: null | ''): string | null {
    if (expression.type !== 'call' || expression.name !== 'orElse' || expression.safe) return null;
    const [otherwise] = expression.args;
    if (otherwise?.type !== 'literal' || otherwise.value !== absent || expression.args.length !== 1) return null;
    return isUser(expression.target, this.#names) ? 'user' : null;
  }
}
