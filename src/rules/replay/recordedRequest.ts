import type { ProductNames } from '../../model/names.ts';
import type { RuleRequest, RuleTrace } from '../decision.ts';
import type { Evaluation } from '../evaluation.ts';
import { RequestObject } from '../objects/request.ts';

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
