import { createHash } from 'node:crypto';
import { MASK, maskUrls } from '../../config/secrets.ts';
import { API_FIELD_MANAGER, API_GROUP, type Resource } from '../../model/resource.ts';
import type { FieldWriter } from '../sources/source.ts';

const MAX_CHARACTERS = 16_384;
const MAX_DEPTH = 12;
const MAX_VALUES = 2_000;
/** Names of fields whose texts are secrets; a reference to a Secret is an object, and no secret itself. */
const secretName = /passw|secret|token|credential|authorization|api-?_?key|private-?_?key/i;

/**
 * The JSON of a state as the audit keeps it: secrets are masked (docs/authentication.md#audit), what is too long is replaced by its
 * beginning. Null stays null: there is nothing.
 */
export function auditText(state: unknown): string | null {
  if (state === null || state === undefined) return null;
  const text = JSON.stringify(masked(state, 0)) ?? 'null';
  if (text.length <= MAX_CHARACTERS) return text;
  return JSON.stringify({ truncated: true, beginning: text.slice(0, MAX_CHARACTERS) });
}

function masked(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return maskUrls(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth >= MAX_DEPTH) return '…';
  if (Array.isArray(value)) return value.slice(0, MAX_VALUES).map((each) => masked(each, depth + 1));
  const entries = Object.entries(value).slice(0, MAX_VALUES);
  return Object.fromEntries(
    entries.map(([name, each]) => [
      name,
      typeof each === 'string' && secretName.test(name) ? MASK : masked(each, depth + 1),
    ]),
  );
}

/** Audited part of a resource: its spec and the gateway's own annotations. */
export function stateOf({ spec, metadata }: Pick<Resource, 'spec' | 'metadata'>): object {
  const annotations = Object.entries(metadata.annotations ?? {}).filter(([name]) => name.startsWith(`${API_GROUP}/`));
  return annotations.length === 0 ? spec : { ...spec, annotations: Object.fromEntries(annotations) };
}

const digests = new WeakMap<object, string>();

/** Digest of all that the audit compares of a resource, secrets and what is cut included. */
export function digestOf(resource: Pick<Resource, 'spec' | 'metadata'>): string {
  const remembered = digests.get(resource);
  if (remembered !== undefined) return remembered;
  const digest = digestOfState(stateOf(resource));
  digests.set(resource, digest);
  return digest;
}

/** Digest of a state, with any order of its fields. */
export function digestOfState(state: object): string {
  return hash(sorted(state));
}

/**
 * Digest of what a write by REST left of a resource. Another write by the same field manager has another digest, as its time or
 * its state differs: the name of a manager is any client's to choose.
 */
export function digestOfWrite(digest: string, writers: readonly FieldWriter[]): string {
  const own = writers.filter(({ manager }) => manager === API_FIELD_MANAGER);
  return hash(['written', digest, ...own.map(({ operation, time }) => `${operation} ${time}`).toSorted()]);
}

export function digestOfAbsence(uid: string): string {
  return hash(['gone', uid]);
}

function hash(value: unknown): string {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex');
}

/** The same JSON for the same fields in another order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([name, each]) => [name, sorted(each)]));
}
