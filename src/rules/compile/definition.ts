import type { RouteTo } from '../../kinds/routingRule/spec.ts';

/** Where the text of a condition or action stands in its file. */
export interface TextPlace {
  /** Line and column of the text's first character, counted from 1. */
  readonly line: number;
  readonly column: number;
  /** Column of the text's further lines; null where they are not known. */
  readonly indent: number | null;
}

/** A condition or action as it was written. */
export interface RuleText {
  readonly text: string;
  /** Field for messages: `condition`, `actions[0]`. */
  readonly field: string;
  /** Null where there is no file. */
  readonly place: TextPlace | null;
}

/** A rule as it was written, from a file or a resource. */
export interface RuleDefinition {
  readonly name: string;
  readonly origin: 'file' | 'resource';
  /** Of the resource; null for rules of the file, which may route everywhere. */
  readonly namespace: string | null;
  readonly description: string;
  readonly priority: number;
  readonly condition: RuleText;
  readonly actions: readonly RuleText[];
  readonly routeTo: RouteTo | null;
  readonly deny: { readonly message: string; readonly onError: 'deny' | 'skip' } | null;
  readonly onUnavailable: 'fallback' | 'reject';
  readonly stop: boolean;
  readonly suspended: boolean;
}

/** Fields that only resources have, with their defaults. */
export const plainRule = {
  namespace: null,
  routeTo: null,
  deny: null,
  onUnavailable: 'fallback',
  stop: false,
  suspended: false,
} as const;
