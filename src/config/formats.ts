import { isIP } from 'node:net';
import { RE2JS } from 're2js';
import { gatewayClassProblem } from '../model/gatewayClass.ts';
import { hostPatternProblem } from '../model/hostPattern.ts';
import { parseLabelSelector } from '../model/labelSelector.ts';
import { wholeMatchProblem } from '../model/regex/wholeMatch.ts';
import { parseHost } from '../model/requestHost.ts';
import { REQUEST_KEY_FORM } from '../model/requestKey.ts';
import type { TextFormat } from './fields.ts';

/** Returns what is wrong with a text, or null. */
type Check = (text: string) => string | null;

const jdbcForms =
  'jdbc:postgresql://HOST/DATABASE, jdbc:mysql://HOST/DATABASE, jdbc:mariadb://HOST/DATABASE or jdbc:sqlite:FILE';

const requestKey = new RegExp(REQUEST_KEY_FORM);

/** Checks of the forms of text, each with a message that states the fix. */
export const formatChecks: Readonly<Record<TextFormat, Check>> = {
  authority: (text) =>
    parseHost(text) !== null
      ? null
      : `must be a host name or address with an optional port, such as admin.example or [::1]:8081, not "${text}"`,
  cidr: (text) => (isCidr(text) ? null : `must be an address or a network such as 10.0.0.0/8, not "${text}"`),
  databaseName: (text) =>
    /^[A-Za-z0-9_$-]{1,64}$/.test(text)
      ? null
      : `must be a database name of letters, digits, "_", "$" and "-", at most 64, not "${text}"`,
  headerName: (text) =>
    /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/.test(text) ? null : `must be the name of a header, not "${text}"`,
  gatewayClass: gatewayClassProblem,
  host: (text) =>
    isIP(text) !== 0 || /^[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?$/.test(text)
      ? null
      : `must be an address or a host name, not "${text}"`,
  hostNamePattern: (text) =>
    text === '*' || /^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?$/.test(text)
      ? null
      : `must be a host name without scheme and port, "*.example.com" or "*", not "${text}"`,
  hostPattern: hostPatternProblem,
  javaRegex: checkJavaRegex,
  jdbcUrl: checkJdbcUrl,
  labelSelector: (text) => {
    const parsed = parseLabelSelector(text);
    return 'problem' in parsed ? parsed.problem : null;
  },
  leaseName: (text) =>
    /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/.test(text)
      ? null
      : `must be a name of an object of Kubernetes (lower-case letters, digits, "-" and "."), not "${text}"`,
  name: (text) =>
    text.trim() === '' ? 'must not be empty' : text.length > 256 ? 'must have at most 256 characters' : null,
  nameOrNothing: (text) =>
    text !== '' && text.trim() === ''
      ? 'must not be white space alone'
      : text.length > 256
        ? 'must have at most 256 characters'
        : null,
  path: (text) => (text === '' ? 'must be a path, not empty' : text.includes('\0') ? 'must not hold NUL' : null),
  productName: (text) =>
    /^[A-Z][A-Za-z0-9]{0,31}$/.test(text)
      ? null
      : `must be letters and digits starting with an upper-case letter, such as Engine or Trino, not "${text}"`,
  plainPath: (text) => (/^[^\s?#]+$/.test(text) ? null : `must be a path such as /metrics, not "${text}"`),
  regex: checkRegex,
  requestKey: (text) => (requestKey.test(text) ? null : `must be user, source, session or header:NAME, not "${text}"`),
  url: checkUrl,
  urlPath: (text) => (/^\/[^\s?#]*$/.test(text) ? null : `must be a path that starts with "/", not "${text}"`),
};

function isCidr(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  if (bits === undefined) return true;
  return /^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128);
}

function checkUrl(text: string): string | null {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === '') {
    return 'must be a URL that starts with http:// or https://';
  }
  return null;
}

function checkJdbcUrl(text: string): string | null {
  const match = /^jdbc:([a-z+]+):(.*)$/s.exec(text);
  if (match === null) return `must be ${jdbcForms}`;
  const [, family = '', rest = ''] = match;
  if (family === 'sqlite') return rest === '' ? 'names no file: write jdbc:sqlite:FILE' : null;
  if (family === 'oracle') {
    return `names an Oracle database, which this gateway cannot use; move its tables (docs/migration.md#from-oracle), or write ${jdbcForms}`;
  }
  if (family === 'mysql+srv') {
    return 'names its hosts by an SRV record, which is not looked up here; list them: jdbc:mysql://A,B/DATABASE';
  }
  if (!['postgresql', 'mysql', 'mariadb'].includes(family)) {
    return `names the database "${family}", which is not supported; must be ${jdbcForms}`;
  }
  // The server of this machine, or the database of the user's name (pgJDBC).
  if (family === 'postgresql' && (/^\/?[^/?]+(\?|$)/.test(rest) || /^\/\/[^/?]+\/?(\?|$)/.test(rest))) return null;
  const [, hosts, database = ''] = /^(?:[a-z-]+:)?\/\/([^/?]+)(?:\/([^?]*))?/.exec(rest) ?? [];
  const isList = hosts !== undefined && /[,(]/.test(hosts);
  const url = isList ? null : URL.parse(`${family}:${rest.replace(/^[a-z-]+:(?=\/\/)/, '')}`);
  if (!isList && (url === null || url.hostname === '')) return `names no host: write jdbc:${family}://HOST/DATABASE`;
  if (database !== '') return null;
  return `names no database: write jdbc:${family}://${isList ? hosts : url?.host}/DATABASE`;
}

/** Expressions of keys that Trino Gateway has, in Java's syntax. */
function checkJavaRegex(text: string): string | null {
  const why = wholeMatchProblem(text);
  return why === null ? null : `is no regular expression that can be used here: ${why}`;
}

/** Regular expressions run in linear time here (re2js), so look-around and back references are not supported. */
function checkRegex(text: string): string | null {
  try {
    RE2JS.compile(text);
    return null;
  } catch (error) {
    const why = error instanceof Error ? error.message.replace(/^error parsing regexp: /, '') : String(error);
    return `is no regular expression that can be used here: ${why}`;
  }
}
