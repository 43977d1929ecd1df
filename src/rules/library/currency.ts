import { EvaluationError } from '../evaluation.ts';
import { compareByText, hashOf, javaEquals } from '../values/equality.ts';
import { textBy } from '../values/text.ts';
import { JavaObject } from '../values/value.ts';
import { LibraryClass } from './javaClass.ts';
import { MethodTable } from './methodTable.ts';

/** `java.util.Currency`: a code of ISO 4217. */
export class JavaCurrency extends JavaObject {
  readonly kind = 'currency';
  readonly code: string;

  constructor(code: string) {
    super();
    this.code = code;
  }
}

const codes: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'));
/** Digits after the point by code, as they are asked for; at most one entry a currency. */
const digits = new Map<string, number>();

function fractionDigits(code: string): number {
  let count = digits.get(code);
  if (count === undefined) {
    count =
      new Intl.NumberFormat('en', { style: 'currency', currency: code }).resolvedOptions().maximumFractionDigits ?? 2;
    digits.set(code, count);
  }
  return count;
}

/** The class Currency. */
export const currencyClass = new LibraryClass('Currency', ['currency']);
currencyClass.statics.add('getInstance', ['string'], (_e, _self, code) => {
  if (!codes.has(code)) throw new EvaluationError('not the code of a currency, such as EUR');
  return new JavaCurrency(code);
});

/** Steps of looking up a currency's digits for the first time. */
const LOOKUP_STEPS = 16;

/** Methods of Currency. */
export const currencyMethods = new MethodTable('Currency', 'operands')
  .add('getCurrencyCode', [], (_e, self: JavaCurrency) => self.code)
  .add('getDefaultFractionDigits', [], (e, self: JavaCurrency) => {
    e.step(LOOKUP_STEPS);
    return fractionDigits(self.code);
  })
  .add('equals', ['any'], (e, self: JavaCurrency, other) => javaEquals(self, other, e))
  .add('hashCode', [], (e, self: JavaCurrency) => hashOf(self, e))
  .add('toString', [], (_e, self: JavaCurrency) => self.code);
textBy('currency', (value) => (value as JavaCurrency).code);
compareByText('currency', (value) => (value as JavaCurrency).code);
