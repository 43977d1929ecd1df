import type { ProductNames } from '../../model/names.ts';
import type { RuleDefinition } from '../compile/definition.ts';
import type { RuleDraft } from '../compile/ruleDraft.ts';
import type { RuleRequest, RuleTrace } from '../decision.ts';
import type { Evaluation } from '../evaluation.ts';
import { RequestObject } from '../requestObjects.ts';
import type { RuleLimits } from '../ruleCompiler.ts';

/**
 * A recorded request. Reading a value that is not recorded throws an `UnknownRead`, as does `headers`; recorded values
 * are the ones that rules saw.
 */
export interface RecordedRequest extends RuleRequest {
  /** Milliseconds since 1970 of the decision. @throws UnknownRead */
  readonly time: number;
  /**
   * Value of a header's first line; null: missing in the request.
   * @param name in lower case
   * @throws UnknownRead
   */
  header(name: string): string | null;
  /** Recorded effects of rules, by name and origin, and the version of all rules; null if not recorded. */
  readonly recordedTrace: { readonly version: string; readonly rules: readonly RuleTrace[] } | null;
  /** True if reading a source (`requestValues.ts`) would throw. */
  lacks(source: string): boolean;
}

/** Cost of a scan of the header lines of a typical request, in characters. */
const USUAL_HEADERS = 256;

export class RecordedRequestObject extends RequestObject {
  readonly #recorded: RecordedRequest;

  constructor(request: RecordedRequest, names: ProductNames) {
    super(request, names);
    this.#recorded = request;
  }

  override countHeaders(e: Evaluation): void {
    // The number of lines is not recorded.
    e.text(USUAL_HEADERS);
  }

  override header(lowerCaseName: string): string | null {
    return this.#recorded.header(lowerCaseName);
  }
}

export interface RuleEdit {
  readonly name: string;
  /** The edited rule; null deletes it. */
  readonly rule: RuleDraft | null;
}

/** Active rules and edited rules, in a form that can be sent to another thread. */
export interface EditedRules {
  readonly definitions: readonly RuleDefinition[];
  /** Indexes of the active rules, in firing order; null: there are no rules, the header decides. */
  readonly before: readonly number[] | null;
  readonly after: readonly number[] | null;
  readonly settings: EditedRulesSettings;
}

export interface EditedRulesSettings {
  readonly onRuleError: 'skip' | 'reject';
  readonly limits: RuleLimits;
  readonly fileFailed: boolean;
  readonly isExternal: boolean;
  /** `RuleRights.version`; null: rules may route everywhere. */
  readonly rights: string | null;
}
