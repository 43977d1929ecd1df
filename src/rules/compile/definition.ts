import type { Deny, RouteTo } from '../../kinds/routingRule/spec.ts';

/** Position of a condition's or action's text in its file. */
export interface TextPlace {
  /** Line and column of the text's first character, counted from 1. */
  readonly line: number;
  readonly column: number;
  /** Column of the text's further lines; null if unknown. */
  readonly indent: number | null;
}

export interface RuleText {
  readonly text: string;
  /** Field for messages: `condition`, `actions[0]`. */
  readonly field: string;
  /** Null without a file. */
  readonly place: TextPlace | null;
}

/** A rule's source texts, from a file or a resource. */
export interface RuleDefinition {
  readonly name: string;
  readonly origin: 'file' | 'resource';
  /** Namespace of the resource; null for rules of the file, which are the platform's. */
  readonly namespace: string | null;
  /** Final: asked after the rules of tenants. */
  readonly stage: 'First' | 'Final';
  readonly description: string;
  readonly priority: number;
  readonly condition: RuleText;
  readonly actions: readonly RuleText[];
  readonly routeTo: RouteTo | null;
  readonly deny: Required<Deny> | null;
  readonly whenUnavailable: 'Fallback' | 'Reject';
  readonly stop: boolean;
  readonly suspend: boolean;
}

/** Defaults of fields that only resources have. */
export const plainRule = {
  namespace: null,
  stage: 'First',
  routeTo: null,
  deny: null,
  whenUnavailable: 'Fallback',
  stop: false,
  suspend: false,
} as const;
