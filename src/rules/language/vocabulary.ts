import type { BinaryOperator } from './ast.ts';

/** Meaning and precedence of a binary operator. */
export interface OperatorBinding {
  readonly operator: BinaryOperator | '&&' | '||';
  readonly left: number;
  readonly right: number;
}

/**
 * Precedence of binary operators. `contains` takes everything up to a whole comparison on its left, but only one
 * operand on its right; `~=` takes one operand on both sides (docs/rules.md#operators-weakest-first).
 */
const BINDING: Readonly<Record<string, OperatorBinding>> = {
  '||': { operator: '||', left: 1, right: 2 },
  or: { operator: 'or', left: 1, right: 2 },
  '&&': { operator: '&&', left: 2, right: 3 },
  and: { operator: '&&', left: 2, right: 3 },
  contains: { operator: 'contains', left: 3, right: 20 },
  '==': { operator: '==', left: 4, right: 5 },
  '!=': { operator: '!=', left: 4, right: 5 },
  '<': { operator: '<', left: 5, right: 6 },
  '<=': { operator: '<=', left: 5, right: 6 },
  '>': { operator: '>', left: 5, right: 6 },
  '>=': { operator: '>=', left: 5, right: 6 },
  is: { operator: 'is', left: 5, right: 20 },
  instanceof: { operator: 'is', left: 5, right: 20 },
  '+': { operator: '+', left: 7, right: 8 },
  '-': { operator: '-', left: 7, right: 8 },
  '*': { operator: '*', left: 8, right: 9 },
  '/': { operator: '/', left: 8, right: 9 },
  '%': { operator: '%', left: 8, right: 9 },
  '~=': { operator: '~=', left: 10, right: 20 },
};

/** The binary operator with this text, or null. */
export function bindingOf(text: string): OperatorBinding | null {
  return Object.hasOwn(BINDING, text) ? (BINDING[text] as OperatorBinding) : null;
}

export function twoSidedOperators(): readonly string[] {
  return Object.keys(BINDING);
}

/** Unsupported operators and words of MVEL, with the text to write instead. */
const REJECTED: Readonly<Record<string, string>> = {
  '===': 'write ==',
  '!==': 'write !=',
  '&': 'bit operators do not exist; write && for a logical and',
  '|': 'bit operators do not exist; write || for a logical or',
  '^': 'bit operators do not exist',
  '~': 'bit operators do not exist',
  '<<': 'bit operators do not exist',
  '>>': 'bit operators do not exist',
  '>>>': 'bit operators do not exist',
  '**': 'there is no power operator; use Math.pow',
  '#': 'write // for a comment, or + to concatenate strings',
  '->': 'functions cannot be written; use foreach',
  '::': 'functions cannot be written; use foreach',
  '++': 'only a variable of its own statement can be incremented, as in i++',
  '--': 'only a variable of its own statement can be decremented, as in i--',
  $: 'projections do not exist; use foreach',
  in: 'in is not available; write list contains value',
  soundslike: 'soundslike is not available',
  strsim: 'strsim is not available',
  convertable_to: 'convertable_to is not available',
  not: 'write !(a contains b)',
};

/** The text to write instead of unsupported code, or undefined. */
export function rejectionOf(text: string): string | undefined {
  return Object.hasOwn(REJECTED, text) ? REJECTED[text] : undefined;
}

/** Unsupported operators and words that Trino Gateway also rejects when it loads a rules file. */
const WRONG_EVERYWHERE = new Set(['===', '!==', '->', '::', 'not']);

/** True if all gateways of this kind reject an operator or word of `refusalOf`. */
export function isWrongEverywhere(text: string): boolean {
  return WRONG_EVERYWHERE.has(text);
}

const WORDS = new Set([
  'if', 'else', 'for', 'foreach', 'while', 'do', 'until', 'return', 'new', 'var', 'def', 'function', 'proto', 'import',
  'import_static', 'package', 'with', 'assert', 'switch', 'case', 'try', 'catch', 'finally', 'throw', 'break', 'continue',
  'class', 'this', 'is', 'instanceof', 'contains', 'and', 'or', 'in', 'isdef', 'soundslike', 'strsim', 'convertable_to',
]); // biome-ignore format: a table

export function isReservedWord(name: string): boolean {
  return WORDS.has(name);
}

const TYPE_NAMES = new Set([
  'int',
  'long',
  'double',
  'float',
  'boolean',
  'char',
  'short',
  'byte',
  'String',
  'Integer',
  'Long',
  'Double',
  'Float',
  'Boolean',
  'Character',
  'Short',
  'Byte',
  'Object',
]);

/** True for type names in variable declarations, in addition to classes of the library. */
export function isTypeName(name: string): boolean {
  return TYPE_NAMES.has(name);
}

export function castHint(name: string): string {
  if (name === 'int' || name === 'Integer') return '(x).intValue() or Integer.parseInt(x)';
  if (name === 'String') return 'String.valueOf(x)';
  return 'a method such as (x).longValue() or Double.parseDouble(x)';
}
