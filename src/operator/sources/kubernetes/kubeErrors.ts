import { ApiException } from '@kubernetes/client-node';
import { type FieldOwner, GatewayError } from '../../../model/errors.ts';
import type { ResourceKey } from '../../../model/resource.ts';
import { noSuchResource, resourceExists, VersionConflict } from '../source.ts';

/** metav1.Status, as far as it is read. */
export interface KubeStatus {
  readonly code?: number;
  readonly message?: string;
  readonly reason?: string;
  readonly details?: {
    readonly retryAfterSeconds?: number;
    readonly causes?: readonly { readonly reason?: string; readonly message?: string; readonly field?: string }[];
  };
}

/** HTTP status of a response of the API server; null for anything else, such as a rejected connection. */
export function kubeCode(error: unknown): number | null {
  if (error instanceof ApiException) return error.code;
  // A watch that the server closed ends without an error.
  const statusCode = (error as { statusCode?: unknown } | null | undefined)?.statusCode;
  return typeof statusCode === 'number' ? statusCode : null;
}

/** The body of an error response; empty if it is unreadable. */
function kubeStatus(error: unknown): KubeStatus {
  if (!(error instanceof ApiException)) return {};
  const { body } = error;
  if (typeof body !== 'string') return (body ?? {}) as KubeStatus;
  try {
    return JSON.parse(body) as KubeStatus;
  } catch {
    return { message: body.slice(0, 500) };
  }
}

/** Seconds of the header Retry-After of a response; null for none, or a date. */
function retryAfter(error: unknown): number | null {
  const value = error instanceof ApiException ? (error.headers as Record<string, string>)['retry-after'] : undefined;
  return value !== undefined && /^\d{1,5}$/.test(value) ? Number(value) : null;
}

/** In a few words, why a call failed, for users. */
export function kubeReason(error: unknown): string {
  const code = kubeCode(error);
  if (code !== null) return `the API server answers ${code}: ${kubeStatus(error).message ?? (error as Error).message}`;
  // `fetch`, which watches are made with, wraps what the connection failed of.
  const { cause } = error as { cause?: unknown };
  const { code: name, message } = (cause ?? error) as { code?: unknown; message: string };
  return typeof name === 'string' ? `the API server cannot be reached: ${name}` : message;
}

/** True if the API server, not the request, is the trouble: unavailable, overloaded, or not letting us. */
export function isUnavailable(error: unknown): boolean {
  const code = kubeCode(error);
  return code === null || code === 401 || code === 403 || code === 429 || code >= 500;
}

export function unavailable(error: unknown): GatewayError {
  return new GatewayError('EG_SOURCE_UNAVAILABLE', `the resources cannot be changed now: ${kubeReason(error)}`, {
    retryAfterSeconds: retryAfter(error) ?? kubeStatus(error).details?.retryAfterSeconds ?? 5,
    cause: error,
  });
}

/** The conflicts of a server-side apply that was rejected; empty when it failed for another reason. */
export function fieldConflicts(error: unknown): readonly FieldOwner[] {
  if (kubeCode(error) !== 409) return [];
  return (kubeStatus(error).details?.causes ?? [])
    .filter((cause) => cause.reason === 'FieldManagerConflict')
    .map((cause) => ({
      manager: /conflict with "([^"]+)"/.exec(cause.message ?? '')?.[1] ?? 'another manager',
      field: (cause.field ?? '').replace(/^\./, ''),
    }));
}

export function fieldOwned(conflicts: readonly FieldOwner[]): GatewayError {
  const owners = conflicts.map(({ field, manager }) => `${field} is owned by ${manager}`).join('; ');
  return new GatewayError('EG_FIELD_OWNED', `${owners}; change it there, or take it over with ?force=true`, {
    field: conflicts[0]?.field.replace(/^spec\./, '') ?? '',
    owners: conflicts,
  });
}

export function writeError(error: unknown, key: ResourceKey): Error {
  if (error instanceof GatewayError || error instanceof VersionConflict) return error;
  const status = kubeStatus(error);
  const what = `${key.kind} ${key.namespace}/${key.name}`;
  switch (kubeCode(error)) {
    case 404:
      return noSuchResource(key);
    case 409:
      if (status.reason === 'AlreadyExists') return resourceExists(key);
      return new VersionConflict(key);
    case 400:
    case 422: {
      const cause = status.details?.causes?.[0];
      const field = cause?.field?.replace(/^spec\./, '');
      const message = status.details?.causes?.map((each) => `${each.field}: ${each.message}`).join('; ');
      return new GatewayError('EG_IMPOSSIBLE', `the API server refuses ${what}: ${message ?? status.message ?? ''}`, {
        ...(field === undefined ? {} : { field }),
      });
    }
    default:
      return isUnavailable(error) ? unavailable(error) : (error as Error);
  }
}
