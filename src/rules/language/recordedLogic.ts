import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { UnknownRead } from '../replay/unknownRead.ts';
import { requireBoolean } from '../values/operators.ts';
import type { Value } from '../values/value.ts';
import type { Expression } from './ast.ts';
import type { Scope } from './scope.ts';

type Logical = Extract<Expression, { readonly type: 'logical' }>;

/**
 * `&&` and `||` over a recorded request: if an operand reads missing data, the others determine the outcome if one of
 * them decides regardless of it.
 *
 * That requires that the operand cannot fail: a failed rule differs from one with a false condition. If a failure is
 * equivalent (`lenient`), a false operand of the outermost `&&` is enough.
 */
export function recordedLogical(
  { operator, operands, offset }: Logical,
  codes: readonly ((e: Evaluation) => Value)[],
  scope: Scope,
  isOutermost: boolean,
): (e: Evaluation) => boolean {
  const decisive = operator === '||';
  const forgives = isOutermost && operator === '&&' && scope.context.replay === 'lenient';
  const passes = operands.map((operand) => forgives || (isTruth(operand) && isTotal(operand, scope)));
  return (e) => {
    let unknown: UnknownRead | null = null;
    for (const [index, code] of codes.entries()) {
      try {
        if (requireBoolean(code(e), operator, offset) === decisive) return decisive;
      } catch (error) {
        const isRead = error instanceof UnknownRead;
        if (!isRead && !(error instanceof EvaluationError)) throw error;
        // The unknown operand determines whether a failing operand is reached.
        if (!isRead || passes[index] !== true) throw unknown ?? error;
        unknown ??= error;
      }
    }
    if (unknown !== null) throw unknown;
    return !decisive;
  };
}

/** True if an expression never fails, and comparing its value with a text never fails. */
export function isTotal(expression: Expression, scope: Scope): boolean {
  switch (expression.type) {
    case 'literal':
      return true;
    case 'not':
      return isTruth(expression.operand) && isTotal(expression.operand, scope);
    case 'logical':
      return expression.operands.every((operand) => isTruth(operand) && isTotal(operand, scope));
    case 'binary':
      return (
        (expression.operator === '==' || expression.operator === '!=') &&
        (isPlainLiteral(expression.left) || isPlainLiteral(expression.right)) &&
        isTotal(expression.left, scope) &&
        isTotal(expression.right, scope)
      );
    case 'call':
      return !expression.safe && isTotalCall(expression, scope);
    default:
      return false;
  }
}

function isTotalCall({ target, name, args }: Extract<Expression, { type: 'call' }>, scope: Scope): boolean {
  if (target.type === 'literal' && typeof target.value === 'string') {
    const [only] = args;
    return TEXT_EQUALITY.has(name) && args.length === 1 && only !== undefined && isTotal(only, scope);
  }
  if (target.type !== 'name') return false;
  const takesText = args.length === 1 && args[0]?.type === 'literal' && typeof args[0].value === 'string';
  if (target.name === 'request') return name === 'getHeader' ? takesText : args.length === 0 && TEXTS.has(name);
  const { requestUserObject, queryPropertiesObject } = scope.context.names;
  if (target.name === requestUserObject) return name === 'userExistsAndEquals' && takesText;
  // A rule that denies fails without an analyzed statement.
  if (target.name !== queryPropertiesObject || scope.context.replay !== 'lenient') return false;
  return name === 'tablesContains' ? takesText : args.length === 0 && QUERY_TEXTS.has(name);
}

const TEXT_EQUALITY = new Set(['equals', 'equalsIgnoreCase']);
const TEXTS = new Set(['getMethod', 'getRequestURI', 'getRemoteAddr', 'getScheme', 'getServerName', 'getQueryString']);
const QUERY_TEXTS = new Set([
  'getQueryType',
  'getResourceGroupQueryType',
  'getDefaultCatalog',
  'getDefaultSchema',
  'isNewQuerySubmission',
  'isQueryParsingSuccessful',
]);

function isPlainLiteral(expression: Expression): boolean {
  return expression.type === 'literal' && (expression.value === null || typeof expression.value === 'string');
}

/** True if an expression returns true or false unless it fails. */
function isTruth(expression: Expression): boolean {
  switch (expression.type) {
    case 'not':
    case 'logical':
      return true;
    case 'literal':
      return typeof expression.value === 'boolean';
    case 'binary':
      return expression.operator === '==' || expression.operator === '!=';
    case 'call':
      return TEXT_EQUALITY.has(expression.name) || TRUTHS.has(expression.name);
    default:
      return false;
  }
}

const TRUTHS = new Set(['userExistsAndEquals', 'tablesContains', 'isNewQuerySubmission', 'isQueryParsingSuccessful']);
