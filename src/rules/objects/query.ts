import type { QualifiedName, QueryProperties } from '../../sql/queryProperties.ts';
import { queryDigest } from '../../sql/statementDigests.ts';
import { statementLabels } from '../../sql/statementLabels.ts';
import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { MethodTable } from '../library/methodTable.ts';
import { JavaList, JavaMap, JavaSet } from '../values/collections.ts';
import { compareByText, textHash } from '../values/equality.ts';
import { javaText, textBy } from '../values/text.ts';
import { equalTexts } from '../values/textSearch.ts';
import { emptyOptional, JavaObject, JavaOptional, type Value } from '../values/value.ts';

/** The object `engineQueryProperties` (docs/rules.md#objects). */
export class QueryObject extends JavaObject {
  readonly kind = 'query';
  readonly properties: QueryProperties;
  #tables: Set<string> | null = null;
  #sets: Record<'catalogs' | 'schemas' | 'catalogSchemas', JavaSet | undefined> | null = null;

  constructor(properties: QueryProperties) {
    super();
    this.properties = properties;
  }

  /** True if the query uses a table, by its lower-case parts. */
  hasTable(parts: readonly string[]): boolean {
    const { tables } = this.properties;
    if (tables.length > 16) return this.tables.has(parts.join('\0'));
    return tables.some((table) => table[2] === parts[2] && table[1] === parts[1] && table[0] === parts[0]);
  }

  /** A set of names, created once; immutable for rules. */
  set(name: 'catalogs' | 'schemas' | 'catalogSchemas', e: Evaluation): JavaSet {
    this.#sets ??= { catalogs: undefined, schemas: undefined, catalogSchemas: undefined };
    let set = this.#sets[name];
    if (set === undefined) {
      set = stringSet(e, this.properties[name]);
      this.#sets[name] = set;
    }
    return set;
  }

  /** Keys of all tables (`tableKey`). */
  get tables(): ReadonlySet<string> {
    this.#tables ??= new Set(this.properties.tables.map((parts) => parts.join('\0')));
    return this.#tables;
  }
}

/** True without an analyzed statement: empty or too long body, unknown charset, another method, no time. */
export function isUnanalysed({ queryType, body }: QueryProperties): boolean {
  return queryType === '' && body === '';
}

/** Longer names cannot be tables and are not parsed. */
const MAX_NAME_LENGTH = 65_536;

/** The key of a table's name: split at dots outside double quotes, lower-case; null unless it has three parts. */
export function tableKey(name: string): string | null {
  if (name.length > MAX_NAME_LENGTH) return null;
  const parts: string[] = [];
  let part = '';
  let isQuoted = false;
  for (let index = 0; index < name.length; index += 1) {
    const char = name.charAt(index);
    if (char === '"' && name.charAt(index - 1) !== '\\') isQuoted = !isQuoted;
    else if (char === '.' && !isQuoted) {
      parts.push(part);
      part = '';
    } else part += char;
  }
  parts.push(part);
  if (isQuoted || parts.length !== 3 || parts.some((text) => text === '')) return null;
  return parts.map((text) => text.toLowerCase()).join('\0');
}

export class QualifiedNameObject extends JavaObject {
  readonly kind = 'qualifiedName';
  readonly parts: QualifiedName;

  constructor(parts: QualifiedName) {
    super();
    this.parts = parts;
  }
}

export const qualifiedNameMethods = new MethodTable('QualifiedName', 'operands')
  .add('getParts', [], (_e, self: QualifiedNameObject) => new JavaList([...self.parts], 'immutable'))
  .add('getSuffix', [], (_e, self: QualifiedNameObject) => self.parts.at(-1) ?? '')
  .add('getPrefix', [], (_e, self: QualifiedNameObject) =>
    self.parts.length < 2 ? emptyOptional : new JavaOptional(new QualifiedNameObject(self.parts.slice(0, -1))),
  )
  .add('toString', [], (e, self: QualifiedNameObject) => javaText(self, e))
  .add('hashCode', [], (e, self: QualifiedNameObject) => textHash(javaText(self, e), e))
  .add('equals', ['any'], (e, self: QualifiedNameObject, other) => sameName(self, other, e));

function joined({ parts }: QualifiedNameObject, e: Evaluation): string {
  const text = parts.join('\0');
  e.text(8 * text.length);
  return text;
}

function sameName(a: QualifiedNameObject, b: Value, e: Evaluation): boolean {
  return b instanceof QualifiedNameObject && equalTexts(joined(a, e), joined(b, e), e);
}

textBy('qualifiedName', (value) => (value as QualifiedNameObject).parts.join('.'));
compareByText('qualifiedName', (value) => (value as QualifiedNameObject).parts.join('\0'));

/**
 * The properties, for values from the body.
 * @throws EvaluationError if a deny rule reads a statement that was not analyzed, or that the engine may not run
 */
export function analysed(e: Evaluation, { properties }: QueryObject): QueryProperties {
  if (!e.requireAnalysis) return properties;
  if (properties.unreadable !== undefined) {
    e.isUnreadable = true;
    throw new EvaluationError(`it is not certain what the engine runs: ${properties.unreadable}`);
  }
  if (isUnanalysed(properties)) throw new EvaluationError(properties.errorMessage ?? NOT_ANALYSED);
  return properties;
}

/** Message of a deny rule that reads a body without analysis. */
export const NOT_ANALYSED =
  'the request has no body that was analysed (it is empty, too long or of an unknown charset)';

function analysedSet(e: Evaluation, self: QueryObject, name: 'catalogs' | 'schemas' | 'catalogSchemas'): JavaSet {
  analysed(e, self);
  return self.set(name, e);
}

function stringSet(e: Evaluation, items: readonly Value[]): JavaSet {
  const set = new JavaSet('insertion', true);
  for (const item of items) set.fill(item, e);
  return set;
}

/** Labels of the statement by name; empty if no known tool wrote it. */
function labelsOf({ body }: QueryProperties, e: Evaluation): JavaMap {
  const { request } = e.objects;
  request.countHeaders(e);
  e.text(MAX_LABEL_COST);
  const labels = new JavaMap('insertion', true);
  for (const [name, value] of Object.entries(statementLabels(body, request.header(request.keyOf(SOURCE))) ?? {})) {
    labels.fill(name, value, e);
  }
  return labels;
}

/** The first name of the header with the source of a query, under any product name. */
const SOURCE = 'X-Trino-Source';
/** Cost of reading the comments around a statement, characters. */
const MAX_LABEL_COST = 65_536;

const optionalText = (text: string | null): JavaOptional => (text === null ? emptyOptional : new JavaOptional(text));

export const queryMethods = new MethodTable('query properties', 'request')
  .add('errorMessage', [], (e, self: QueryObject) => analysed(e, self).errorMessage)
  // Additional name: rules of Trino Gateway call getErrorMessage().isPresent().
  .add('getErrorMessage', [], (e, self: QueryObject) => optionalText(analysed(e, self).errorMessage))
  .add('isQueryParsingSuccessful', [], (e, self: QueryObject) => analysed(e, self).errorMessage === null)
  .add('isNewQuerySubmission', [], (_e, self: QueryObject) => self.properties.isNewQuerySubmission)
  .add('getQueryType', [], (e, self: QueryObject) => analysed(e, self).queryType, { reads: 'queryType' })
  .add('getResourceGroupQueryType', [], (e, self: QueryObject) => analysed(e, self).resourceGroupQueryType, {
    reads: 'resourceGroupQueryType',
  })
  .add('getDefaultCatalog', [], (_e, self: QueryObject) => self.properties.defaultCatalog, { reads: 'defaultCatalog' })
  .add('getDefaultSchema', [], (_e, self: QueryObject) => self.properties.defaultSchema, { reads: 'defaultSchema' })
  .add('getCatalogs', [], (e, self: QueryObject) => analysedSet(e, self, 'catalogs'), { reads: 'catalog' })
  .add('getSchemas', [], (e, self: QueryObject) => analysedSet(e, self, 'schemas'), { reads: 'schema' })
  .add('getCatalogSchemas', [], (e, self: QueryObject) => analysedSet(e, self, 'catalogSchemas'), {
    reads: 'catalogSchema',
  })
  .add(
    'tablesContains',
    ['string'],
    (e, self: QueryObject, name) => {
      analysed(e, self);
      e.text(8 * Math.min(name.length, MAX_NAME_LENGTH));
      const key = tableKey(name);
      return key !== null && self.tables.has(key);
    },
    { reads: 'table' },
  )
  .add(
    'getTables',
    [],
    (e, self: QueryObject) =>
      stringSet(
        e,
        analysed(e, self).tables.map((parts) => new QualifiedNameObject(parts)),
      ),
    { reads: 'table' },
  )
  .add('getBody', [], (e, self: QueryObject) => analysed(e, self).body)
  .add(
    'getQueryDigest',
    [],
    (e, self: QueryObject) => {
      const properties = analysed(e, self);
      e.text(8 * properties.body.length);
      return queryDigest(properties);
    },
    { reads: 'queryDigest' },
  )
  .add('getQueryLabels', [], (e, self: QueryObject) => labelsOf(analysed(e, self), e))
  .add('getQueryId', [], (e, self: QueryObject) => optionalText(analysed(e, self).queryId));
