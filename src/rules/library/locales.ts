import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { lowerCase, lowerCaseIn, upperCase, upperCaseIn } from '../values/caseMapping.ts';
import { byText } from '../values/text.ts';
import { JavaObject, type Value } from '../values/value.ts';
import { LibraryClass } from './javaClass.ts';
import { MethodTable, objectMethods } from './methodTable.ts';

/** `java.util.Locale`: language and country. */
export class JavaLocale extends JavaObject {
  readonly kind = 'locale';
  readonly language: string;
  readonly country: string;

  constructor(language: string, country: string) {
    super();
    this.language = language;
    this.country = country;
  }
}

const MAX_PART_LENGTH = 8;

function locale(language: string, country = ''): JavaLocale {
  if (language.length > MAX_PART_LENGTH || country.length > MAX_PART_LENGTH) throw new EvaluationError('not a locale');
  return new JavaLocale(language.toLowerCase(), country.toUpperCase());
}

function ofTag(tag: string): JavaLocale {
  const [, language = '', country = ''] = /^([a-zA-Z]{2,8})(?:-([a-zA-Z]{2}|[0-9]{3}))?(?:-.*)?$/.exec(tag) ?? [];
  return language === 'und' ? root : locale(language, country);
}

function textOf({ language, country }: JavaLocale): string {
  return country === '' ? language : `${language}_${country}`;
}

const root = new JavaLocale('', '');
/** Result of `Locale.getDefault()`: rules do not depend on the machine. */
const standard = new JavaLocale('en', 'US');

export const localeClass = new LibraryClass('Locale', ['locale']);
const constants: readonly (readonly [name: string, language: string, country?: string])[] = [
  ['ROOT', ''],
  ['ENGLISH', 'en'],
  ['US', 'en', 'US'],
  ['UK', 'en', 'GB'],
  ['CANADA', 'en', 'CA'],
  ['FRENCH', 'fr'],
  ['FRANCE', 'fr', 'FR'],
  ['CANADA_FRENCH', 'fr', 'CA'],
  ['GERMAN', 'de'],
  ['GERMANY', 'de', 'DE'],
  ['ITALIAN', 'it'],
  ['ITALY', 'it', 'IT'],
  ['JAPANESE', 'ja'],
  ['JAPAN', 'ja', 'JP'],
  ['KOREAN', 'ko'],
  ['KOREA', 'ko', 'KR'],
  ['CHINESE', 'zh'],
  ['CHINA', 'zh', 'CN'],
];
for (const [name, language, country = ''] of constants) localeClass.field(name, new JavaLocale(language, country));
localeClass.constructors
  .add('new', ['string'], (_e, _self, language) => locale(language))
  .add('new', ['string', 'string'], (_e, _self, language, country) => locale(language, country));
localeClass.statics
  .add('of', ['string'], (_e, _self, language) => locale(language))
  .add('of', ['string', 'string'], (_e, _self, language, country) => locale(language, country))
  .add('forLanguageTag', ['string'], (_e, _self, tag) => ofTag(tag))
  .add('getDefault', [], () => standard);

export const localeMethods = new MethodTable('Locale', 'operands')
  .add('getLanguage', [], (_e, self: JavaLocale) => self.language)
  .add('getCountry', [], (_e, self: JavaLocale) => self.country)
  .add('toLanguageTag', [], (_e, self: JavaLocale) => (textOf(self) === '' ? 'und' : textOf(self).replace('_', '-')))
  .include(objectMethods);

byText('locale', (value) => textOf(value as JavaLocale));

export function localeOf(value: Value): JavaLocale {
  if (value instanceof JavaLocale) return value;
  throw new EvaluationError('the argument must be a Locale, such as Locale.ROOT');
}

/** Languages with special case mapping (java.lang.String.toLowerCase(Locale)). */
const OWN_CASES: ReadonlySet<string> = new Set(['tr', 'az', 'lt']);

export function lowerCaseOf(text: string, { language }: JavaLocale, e: Evaluation): string {
  return OWN_CASES.has(language) ? lowerCaseIn(text, language, e) : lowerCase(text, e);
}

export function upperCaseOf(text: string, { language }: JavaLocale, e: Evaluation): string {
  return OWN_CASES.has(language) ? upperCaseIn(text, language, e) : upperCase(text, e);
}
