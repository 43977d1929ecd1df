import { EvaluationError } from '../evaluation.ts';
import { byText } from '../values/text.ts';
import { TextHolder } from '../values/value.ts';
import { LibraryClass } from './javaClass.ts';
import { JavaLocale } from './locales.ts';
import { MethodTable, objectMethods } from './methodTable.ts';

/** `java.util.Currency`: a code of ISO 4217. */
export class JavaCurrency extends TextHolder {
  readonly kind = 'currency';
}

const codes: ReadonlySet<string> = new Set(Intl.supportedValuesOf('currency'));
/** Digits after the point by code; at most one entry per currency. */
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

/** Currencies with a code that begins with their country's, as ISO 4217 defines. */
const ownCurrencies = [
  'AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP',
  'CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF',
  'IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA',
  'MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON',
  'RSD RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS',
  'UAH UGX USD UYU UZS VES VND VUV WST YER ZAR ZMW ZWG',
]
  .join(' ')
  .split(' ');
/** Countries with the currency of another country, by its code. */
const shared: Readonly<Record<string, string>> = {
  AUD: 'CC CX HM KI NF NR TV',
  CHF: 'LI',
  DKK: 'FO GL',
  EUR: 'AD AT AX BE BG BL CY DE EE ES FI FR GF GP GR HR IE IT LT LU LV MC ME MF MQ MT NL PM PT RE SI SK SM TF VA YT',
  GBP: 'GG GS IM JE',
  ILS: 'PS',
  MAD: 'EH',
  NOK: 'BV SJ',
  NZD: 'CK NU PN TK',
  USD: 'AS BQ EC FM GU IO MH MP PR PW TC TL UM VG VI',
  XAF: 'CF CG CM GA GQ TD',
  XCD: 'AG AI DM GD KN LC MS VC',
  XCG: 'CW SX',
  XOF: 'BF BJ CI GW ML NE SN TG',
  XPF: 'NC PF WF',
};
/** Currency by country (ISO 3166); null for Antarctica. */
const byCountry: ReadonlyMap<string, string | null> = new Map<string, string | null>([
  ...ownCurrencies.map((code) => [code.slice(0, 2), code] as const),
  ...Object.entries(shared).flatMap(([code, countries]) =>
    countries.split(' ').map((country) => [country, code] as const),
  ),
  ['AQ', null],
]);

export const currencyClass = new LibraryClass('Currency', ['currency']);
currencyClass.statics.add('getInstance', ['string'], (_e, _self, code) => {
  if (!codes.has(code)) throw new EvaluationError('not the code of a currency, such as EUR');
  return new JavaCurrency(code);
});
currencyClass.statics.add('getInstance', ['any'], (_e, _self, of) => {
  if (!(of instanceof JavaLocale)) throw new EvaluationError('Currency.getInstance takes a code or a Locale');
  const code = byCountry.get(of.country);
  if (code === undefined) throw new EvaluationError('the country of the Locale is not one of ISO 3166');
  return code === null ? null : new JavaCurrency(code);
});

const LOOKUP_STEPS = 16;

export const currencyMethods = new MethodTable('Currency', 'operands')
  .add('getCurrencyCode', [], (_e, self: JavaCurrency) => self.text)
  .add('getDefaultFractionDigits', [], (e, self: JavaCurrency) => {
    e.step(LOOKUP_STEPS);
    return fractionDigits(self.text);
  })
  .include(objectMethods);
byText('currency', (value) => (value as JavaCurrency).text);
