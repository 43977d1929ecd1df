import type { ProductNames } from '../../model/names.ts';
import { firstHeader, headerValues, type RawHeaders } from '../../model/rawHeaders.ts';
import { STATEMENT_PATH } from '../../routing/proxiedPaths.ts';
import type { StoredRequest } from '../../routing/storedDecision.ts';
import type { RuleSet } from '../../rules/decision.ts';
import type { BodyStart } from '../bodies/body.ts';

/** Longest value that is kept, characters. */
const MAX_VALUE_LENGTH = 256;
/** Most headers that rules read of which values are kept, in addition to those of the protocol. */
const MAX_OF_RULES = 16;

/** Headers of the protocol that rules read more than others. User, source and text have columns of their own. */
const OF_PROTOCOL = ['User', 'Catalog', 'Schema', 'Client-Tags', 'Client-Info', 'Routing-Group'] as const;

/** Names in lower case of the headers of which a value is kept wherever a request has one. */
export function keptHeaders(names: ProductNames): readonly string[] {
  let keys = keysByNames.get(names);
  if (keys === undefined) {
    keys = OF_PROTOCOL.map((name) => names.headerKey(name));
    keysByNames.set(names, keys);
  }
  return keys;
}

const keysByNames = new WeakMap<ProductNames, readonly string[]>();

/** Names of headers whose values are, or may be, secrets: they are kept nowhere. */
const SECRET =
  /auth|cookie|credential|passw|secret|token|signature|assertion|api-?key|private|jwt|session-?id|ssl|client-cert|prepared-statement/;

/** True if a header may hold a secret. @param name in lower case */
export function isSecretHeader(name: string): boolean {
  return SECRET.test(name);
}

export interface SeenRequest {
  readonly headers: RawHeaders;
  readonly path: string;
  /** Null: there is no query string. */
  readonly query: string | null;
  readonly body: BodyStart;
}

/**
 * Stored data of a request for the replay of rules (docs/rules.md#impact): a few protocol headers, and headers that
 * active rules read by name. Never a header that may contain a secret.
 */
export class RequestFacts {
  readonly #ofProtocol: readonly string[];
  readonly #preparedKey: string;
  readonly #ofRules = new WeakMap<RuleSet, readonly string[]>();

  constructor(names: ProductNames) {
    this.#ofProtocol = keptHeaders(names);
    this.#preparedKey = names.headerKey('Prepared-Statement');
  }

  /** @param rules those active; null for none */
  of({ headers, path, query, body }: SeenRequest, rules: RuleSet | null): StoredRequest {
    const values: Record<string, string | null> = {};
    const unkept: string[] = [];
    const keep = (name: string, isNotedWhereAbsent: boolean): void => {
      const [value, ...further] = headerValues(headers, name);
      if (value === undefined) {
        if (isNotedWhereAbsent) values[name] = null;
      } else if (further.length > 0 || value.length > MAX_VALUE_LENGTH) unkept.push(name);
      else values[name] = value;
    };
    for (const name of this.#ofProtocol) keep(name, false);
    for (const name of rules === null ? [] : this.#readBy(rules)) keep(name, true);
    if (firstHeader(headers, this.#preparedKey) !== undefined) unkept.push(this.#preparedKey);
    if (query !== null) unkept.push('query string');
    const contentType = firstHeader(headers, 'content-type')?.toLowerCase() ?? '';
    if (contentType.startsWith('application/x-www-form-urlencoded')) unkept.push('form');
    const isOtherText = contentType.includes('charset') && !/charset\s*=\s*"?utf-?8/.test(contentType);
    return {
      text: body.complete ? body.text.length : null,
      headers: values,
      ...(unkept.length === 0 && !isOtherText ? {} : { unkept: isOtherText ? [...unkept, 'text'] : unkept }),
      ...(rules?.version === undefined ? {} : { rules: rules.version }),
      ...(path === STATEMENT_PATH ? {} : { path: path.slice(0, MAX_VALUE_LENGTH) }),
    };
  }

  #readBy(rules: RuleSet): readonly string[] {
    let names = this.#ofRules.get(rules);
    if (names === undefined) {
      names = (rules.headers ?? [])
        .filter((name) => name.length <= MAX_VALUE_LENGTH && !isSecretHeader(name) && !this.#ofProtocol.includes(name))
        .slice(0, MAX_OF_RULES);
      this.#ofRules.set(rules, names);
    }
    return names;
  }
}
