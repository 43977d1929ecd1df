import type { RuleRequest } from './decision.ts';

/** Parameters of a request by name: of its query string, then of a form body (Servlet 6, 3.1). */
export function parametersOf({ query, formBody }: Pick<RuleRequest, 'query' | 'formBody'>): Map<string, string[]> {
  const parameters = new Map<string, string[]>();
  for (const text of [query, formBody]) {
    for (const [name, value] of new URLSearchParams(text ?? '')) {
      const values = parameters.get(name);
      if (values === undefined) parameters.set(name, [value]);
      else values.push(value);
    }
  }
  return parameters;
}
