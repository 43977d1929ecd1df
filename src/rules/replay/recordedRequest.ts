import type { ProductNames } from '../../model/names.ts';
import type { RuleRequest, RuleTrace } from '../decision.ts';
import type { Evaluation } from '../evaluation.ts';
import { RequestObject } from '../objects/request.ts';

/**
 * A request of which only a record is left. What the record does not hold throws an `UnknownRead` when it is read, `headers`
 * as a whole always; what it holds is what rules saw.
 */
export interface RecordedRequest extends RuleRequest {
  /** Milliseconds since 1970 of the decision. @throws UnknownRead */
  readonly time: number;
  /**
   * Value of a header's first line; null: the request had none.
   * @param name in lower case
   * @throws UnknownRead
   */
  header(name: string): string | null;
  /** What rules did to the request, by name and origin, and the version of all of them; null where that is not recorded. */
  readonly recordedTrace: { readonly version: string; readonly rules: readonly RuleTrace[] } | null;
  /** Whether reading a source (`requestValues.ts`) would throw. */
  lacks(source: string): boolean;
}

/** What looking through the header lines of a request of the usual length costs, in characters that are read. */
const USUAL_HEADERS = 256;

/** The object `request` of a recorded request. */
export class RecordedRequestObject extends RequestObject {
  readonly #recorded: RecordedRequest;

  constructor(request: RecordedRequest, names: ProductNames) {
    super(request, names);
    this.#recorded = request;
  }

  override countHeaders(e: Evaluation): void {
    // How many lines there were is not recorded.
    e.text(USUAL_HEADERS);
  }

  override header(lowerCaseName: string): string | null {
    return this.#recorded.header(lowerCaseName);
  }
}
