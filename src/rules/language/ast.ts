import type { Value } from '../values/value.ts';

export type BinaryOperator =
  | '+'
  | '-'
  | '*'
  | '/'
  | '%'
  | '=='
  | '!='
  | '<'
  | '<='
  | '>'
  | '>='
  | '~='
  | 'contains'
  | 'or'
  | 'is';

/** An expression. `offset` is its position in the text, `depth` the height of its tree. */
export type Expression = { readonly offset: number; readonly depth: number } & (
  | { readonly type: 'literal'; readonly value: Value }
  | { readonly type: 'empty' }
  | { readonly type: 'name'; readonly name: string }
  | { readonly type: 'property'; readonly target: Expression; readonly name: string; readonly safe: boolean }
  | {
      readonly type: 'call';
      readonly target: Expression;
      readonly name: string;
      readonly args: readonly Expression[];
      readonly safe: boolean;
    }
  | { readonly type: 'index'; readonly target: Expression; readonly key: Expression }
  | { readonly type: 'not'; readonly operand: Expression }
  | { readonly type: 'negate'; readonly operand: Expression }
  | {
      readonly type: 'binary';
      readonly operator: BinaryOperator;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly type: 'logical'; readonly operator: '&&' | '||'; readonly operands: Expression[] }
  | { readonly type: 'ternary'; readonly test: Expression; readonly yes: Expression; readonly no: Expression }
  | { readonly type: 'list'; readonly items: readonly Expression[] }
  | { readonly type: 'map'; readonly entries: readonly { readonly key: Expression; readonly value: Expression }[] }
  | { readonly type: 'new'; readonly className: string; readonly args: readonly Expression[] }
  | { readonly type: 'isdef'; readonly name: string }
);

export type AssignmentOperator = '=' | '+=' | '-=' | '*=' | '/=' | '%=';

export type Statement = { readonly offset: number } & (
  | { readonly type: 'expression'; readonly expression: Expression }
  | {
      readonly type: 'assign';
      readonly target: Expression;
      readonly operator: AssignmentOperator;
      readonly value: Expression;
    }
  | {
      readonly type: 'declare';
      readonly javaType: string;
      readonly name: string;
      readonly value: Expression | null;
    }
  | { readonly type: 'increment'; readonly name: string; readonly by: 1 | -1; readonly prefix: boolean }
  | { readonly type: 'if'; readonly test: Expression; readonly yes: Block; readonly no: Block | null }
  | {
      readonly type: 'foreach';
      readonly javaType: string | null;
      readonly name: string;
      readonly items: Expression;
      readonly body: Block;
    }
  | {
      readonly type: 'for';
      readonly start: Statement | null;
      readonly test: Expression | null;
      readonly update: Statement | null;
      readonly body: Block;
    }
  | { readonly type: 'while'; readonly test: Expression; readonly body: Block; readonly testFirst: boolean }
  | { readonly type: 'return'; readonly value: Expression | null }
);

export interface Block {
  readonly statements: readonly Statement[];
}
