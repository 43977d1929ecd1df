import type { IncomingMessage } from 'node:http';
import { firstHeader } from '../../model/rawHeaders.ts';
import type { RequestUser } from '../../model/requestUser.ts';
import type { RuleRequest } from '../../rules/decision.ts';
import type { QueryProperties } from '../../sql/queryProperties.ts';
import type { Analysis } from '../analysis/requestAnalyzer.ts';
import type { BodyStart } from '../bodies/requestBodies.ts';
import type { ClientView, RequestHeaders } from '../headers/requestHeaders.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';

/**
 * A proxied request as rules and the external rules service see it. Where the client is, and whether it sent a form, is
 * found out when a user asks: few rules do, and each search of the header lines costs as much as a rule.
 */
export class ProxiedRuleRequest implements RuleRequest {
  readonly method: string;
  readonly path: string;
  readonly query: string | null;
  readonly headers: readonly string[];
  readonly remoteUser = null;
  readonly isSubmission: boolean;
  readonly user: RequestUser | null;
  readonly queryProperties: QueryProperties | null;
  readonly #request: IncomingMessage;
  readonly #views: RequestHeaders;
  readonly #body: BodyStart | null;
  #client: ClientView | null = null;

  /**
   * @param analysis null if the request was not analyzed
   * @param body null if it is not read before the decision
   * @param views states where the client is
   */
  constructor(proxied: ProxiedRequest, analysis: Analysis | null, body: BodyStart | null, views: RequestHeaders) {
    const { request, target } = proxied;
    this.method = proxied.method;
    this.path = target.path;
    this.query = target.query;
    this.headers = request.rawHeaders;
    this.isSubmission = proxied.kind === 'submission';
    this.user = analysis === null ? null : analysis.user;
    this.queryProperties = analysis === null ? null : analysis.queryProperties;
    this.#request = request;
    this.#views = views;
    this.#body = body;
  }

  get scheme(): 'http' | 'https' {
    return this.#view().scheme;
  }

  get serverName(): string {
    return this.#view().host;
  }

  get serverPort(): number {
    return this.#view().port;
  }

  get remoteAddr(): string {
    return this.#view().address;
  }

  get formBody(): string | null {
    const body = this.#body;
    if (body === null || !body.complete) return null;
    const contentType = firstHeader(this.#request.rawHeaders, 'content-type')?.toLowerCase();
    return contentType?.startsWith('application/x-www-form-urlencoded') === true ? body.text : null;
  }

  #view(): ClientView {
    this.#client ??= this.#views.clientOf(this.#request);
    return this.#client;
  }
}
