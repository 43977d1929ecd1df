import { Counter, type Registry } from 'prom-client';

/** Takes note of a call. @param code status of the response; null if there was none */
export type ApiServerCalls = (method: string, code: number | null) => void;

export const uncountedCalls: ApiServerCalls = () => undefined;

const NAME = 'rest_client_requests_total';

/** Counts calls of the API server as client-go does; the same counter for all that share a registry. */
export function countedCalls(registry: Registry): ApiServerCalls {
  const counter =
    (registry.getSingleMetric(NAME) as Counter<'code' | 'method'> | undefined) ??
    new Counter({
      name: NAME,
      help: 'Calls of the Kubernetes API server, by method and status code (<error>: there was no answer). Named as in client-go.',
      labelNames: ['code', 'method'],
      registers: [registry],
    });
  return (method, code) => counter.inc({ method, code: code === null ? '<error>' : String(code) });
}
