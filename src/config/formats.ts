import { isIP } from 'node:net';
import { RE2JS } from 're2js';
import { hostPatternProblem } from '../model/hostPattern.ts';
import { parseHost } from '../model/http.ts';
import { parseLabelSelector } from '../model/labelSelector.ts';
import { wholeMatchProblem } from '../model/regex/wholeMatch.ts';
import { gatewayClassProblem } from '../model/resource.ts';
import { REQUEST_KEY_FORM } from '../model/strategies.ts';
import type { TextFormat } from './fields.ts';

/** Returns what is wrong with a text, or null. */
type Check = (text: string) => string | null;

const jdbcForms =
  'jdbc:postgresql://HOST/DATABASE, jdbc:mysql://HOST/DATABASE, jdbc:mariadb://HOST/DATABASE or jdbc:sqlite:FILE';

/** A check by a form that the text must have. */
function form(pattern: RegExp | ((text: string) => boolean), wanted: string): Check {
  const isRight = typeof pattern === 'function' ? pattern : (text: string) => pattern.test(text);
  return (text) => (isRight(text) ? null : `must be ${wanted}, not "${text}"`);
}

const hostForm = /^[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?$/;
const hostNamePattern = /^\*$|^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,250}[A-Za-z0-9])?$/;
const authority = 'a host name or address with an optional port, such as admin.example or [::1]:8081';
const leaseName = 'a name of an object of Kubernetes (lower-case letters, digits, "-" and ".")';
const productName = 'letters and digits starting with an upper-case letter, such as Engine or Trino';

/** Checks of the forms of text, each with a message that states the fix. */
export const formatChecks: Readonly<Record<TextFormat, Check>> = {
  authority: form((text) => parseHost(text) !== null, authority),
  cidr: form(isCidr, 'an address or a network such as 10.0.0.0/8'),
  databaseName: form(/^[A-Za-z0-9_$-]{1,64}$/, 'a database name of letters, digits, "_", "$" and "-", at most 64'),
  headerName: form(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$/, 'the name of a header'),
  gatewayClass: gatewayClassProblem,
  host: form((text) => isIP(text) !== 0 || hostForm.test(text), 'an address or a host name'),
  hostNamePattern: form(hostNamePattern, 'a host name without scheme and port, "*.example.com" or "*"'),
  hostPattern: hostPatternProblem,
  javaRegex: (text) => unusableRegex(wholeMatchProblem(text)),
  jdbcUrl: checkJdbcUrl,
  labelSelector(text) {
    const parsed = parseLabelSelector(text);
    return 'problem' in parsed ? parsed.problem : null;
  },
  leaseName: form(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, leaseName),
  name: (text) => (text.trim() === '' ? 'must not be empty' : nameProblem(text)),
  nameOrNothing: (text) => (/^\s+$/.test(text) ? 'must not be white space alone' : nameProblem(text)),
  path: (text) => (text === '' ? 'must be a path, not empty' : text.includes('\0') ? 'must not hold NUL' : null),
  productName: form(/^[A-Z][A-Za-z0-9]{0,31}$/, productName),
  plainPath: form(/^[^\s?#]+$/, 'a path such as /metrics'),
  regex: checkRegex,
  requestKey: form(new RegExp(REQUEST_KEY_FORM), 'user, source, session or header:NAME'),
  url: checkUrl,
  urlPath: form(/^\/[^\s?#]*$/, 'a path that starts with "/"'),
};

function nameProblem(text: string): string | null {
  return text.length > 256 ? 'must have at most 256 characters' : null;
}

function isCidr(text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/');
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  if (bits === undefined) return true;
  return /^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128);
}

function checkUrl(text: string): string | null {
  const url = URL.parse(text);
  const isHttp = url !== null && /^https?:$/.test(url.protocol) && url.hostname !== '';
  return isHttp ? null : 'must be a URL that starts with http:// or https://';
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

/** Regular expressions run in linear time here (re2js), so look-around and back references are not supported. */
function checkRegex(text: string): string | null {
  try {
    RE2JS.compile(text);
    return null;
  } catch (error) {
    const why = error instanceof Error ? error.message.replace(/^error parsing regexp: /, '') : String(error);
    return unusableRegex(why);
  }
}

function unusableRegex(why: string | null): string | null {
  return why === null ? null : `is no regular expression that can be used here: ${why}`;
}
