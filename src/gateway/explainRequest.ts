import { explainRouting, type RoutingExplanation } from '../routing/explanation.ts';
import type { RoutingTableHolder } from '../routing/tableHolder.ts';
import type { RuleRequest } from '../rules/decision.ts';
import { type DescribedRequest, type DescriptionReader, describedRuleRequest } from './describedRequest.ts';

/** What a request would come to, and what was seen of it. */
export interface ExplainedRequest extends RoutingExplanation {
  readonly request: {
    readonly isSubmission: boolean;
    /** Null: none was recognised, or request analysis is off. */
    readonly user: string | null;
    /** Null: request analysis is off. */
    readonly query: {
      readonly queryType: string;
      readonly resourceGroupQueryType: string;
      readonly tables: readonly string[];
      readonly catalogs: readonly string[];
      readonly schemas: readonly string[];
      readonly errorMessage: string | null;
    } | null;
  };
}

/** Explains described requests. */
export type ExplainRequest = (description: DescribedRequest) => ExplainedRequest;

/**
 * Makes the explanation of described requests: the same steps as for a real one, with nothing sent and nobody asked.
 * @param defaultGroup `routing.defaultRoutingGroup`, as it is now
 */
export function requestExplanation(
  table: RoutingTableHolder,
  reader: DescriptionReader,
  defaultGroup: () => string,
): ExplainRequest {
  const groupKey = reader.names.headerKey('Routing-Group');
  return (description) => {
    const request = describedRuleRequest(description, reader);
    const current = table.current;
    const ruled = current.rules === null ? null : current.rules.decide(request);
    const header = request.headers.find(([name]) => name.toLowerCase() === groupKey)?.[1];
    return { ...explainRouting(current, ruled, header, defaultGroup()), request: seen(request) };
  };
}

function seen({ isSubmission, user, queryProperties }: RuleRequest): ExplainedRequest['request'] {
  if (queryProperties === null) return { isSubmission, user: user?.user ?? null, query: null };
  const { queryType, resourceGroupQueryType, tables, catalogs, schemas, errorMessage } = queryProperties;
  return {
    isSubmission,
    user: user?.user ?? null,
    query: {
      queryType,
      resourceGroupQueryType,
      tables: tables.map((parts) => parts.join('.')),
      catalogs,
      schemas,
      errorMessage,
    },
  };
}
