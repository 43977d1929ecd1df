import { createHash } from 'node:crypto';
import type { KubeConfig } from '@kubernetes/client-node';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { KubeRequests } from '../../operator/kubernetes/kubeRequests.ts';
import type { Caller, Role } from './caller.ts';
import { accessOfRole, type ResourceAccess } from './endpointAccess.ts';

/** API group of our resources. */
const GROUP = 'enginegateway.dev';

/** Time for an answer of the API server in milliseconds. */
const TIMEOUT_MS = 5_000;

/** Most answers kept, and most questions asked at once. */
const CAPACITY = 10_000;
const MAX_PENDING = 64;

/** What the API server finds out about a token (authentication.k8s.io/v1), as far as it is read. */
interface TokenReview {
  readonly status?: {
    readonly authenticated?: boolean;
    readonly audiences?: readonly string[];
    readonly user?: { readonly username?: string; readonly uid?: string; readonly groups?: readonly string[] };
  };
}

/** Whether a user may do something (authorization.k8s.io/v1), as far as it is read. */
interface SubjectAccessReview {
  readonly status?: { readonly allowed?: boolean; readonly denied?: boolean };
}

/** A user as the cluster knows them. */
export interface KubernetesIdentity {
  readonly name: string;
  readonly uid: string;
  readonly groups: readonly string[];
}

/** What is asked and how long answers are believed (`authentication.kubernetes`). */
export interface KubernetesAccessOptions {
  readonly kubeConfig: KubeConfig;
  /** Namespace of the resources that callers are asked about; null: all of them. */
  readonly namespace: string | null;
  /** Audiences of tokens; null: the API server's own. */
  readonly audiences: readonly string[] | null;
  /** Milliseconds. */
  readonly cacheDuration: number;
  readonly clock: Clock;
}

/**
 * Callers as the Kubernetes API server knows them: a token by TokenReview, what its user may do by SubjectAccessReview,
 * so that RBAC is the one truth (design.md: open REST). Answers are believed briefly; failures are never kept.
 */
export class KubernetesAccess {
  readonly #requests: KubeRequests;
  readonly #options: KubernetesAccessOptions;
  readonly #reviewed: LRUCache<string, { readonly identity: KubernetesIdentity | null }>;
  readonly #allowed: LRUCache<string, { readonly allowed: boolean }>;
  readonly #pending = new Map<string, Promise<unknown>>();

  constructor(options: KubernetesAccessOptions) {
    this.#options = options;
    this.#requests = new KubeRequests(options.kubeConfig);
    const perf = { now: () => options.clock.monotonic() };
    const limits = { max: CAPACITY, ttl: Math.max(1, options.cacheDuration), ttlResolution: 0, perf };
    this.#reviewed = new LRUCache(limits);
    this.#allowed = new LRUCache(limits);
  }

  /**
   * The user of a token; null when the API server does not know it.
   * @throws GatewayError EG_IDENTITY_UNAVAILABLE
   */
  async review(token: string): Promise<KubernetesIdentity | null> {
    const key = createHash('sha256').update(token).digest('base64');
    const known = this.#reviewed.get(key);
    if (known !== undefined) return known.identity;
    const identity = await this.#once(`review ${key}`, () => this.#review(token));
    this.#reviewed.set(key, { identity });
    return identity;
  }

  /** The caller of an identity: what they may do is asked when it matters. */
  caller(identity: KubernetesIdentity): Caller {
    const may = async (resources: readonly ResourceAccess[]) => {
      const answers = await Promise.all(resources.map((resource) => this.#isAllowed(identity, resource)));
      return answers.every(Boolean);
    };
    const every: readonly Role[] = ['ADMIN', 'USER', 'API'];
    return {
      name: identity.name,
      by: 'kubernetes',
      roles: async () => {
        const held = await Promise.all(every.map((role) => may(accessOfRole(role).resources)));
        return new Set(every.filter((_, index) => held[index]));
      },
      permits: ({ resources }) => may(resources),
    };
  }

  async #review(token: string): Promise<KubernetesIdentity | null> {
    const { audiences } = this.#options;
    const { status } = await this.#requests.send<TokenReview>({
      method: 'POST',
      path: '/apis/authentication.k8s.io/v1/tokenreviews',
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenReview',
        spec: { token, ...(audiences === null ? {} : { audiences }) },
      },
      timeoutMs: TIMEOUT_MS,
    });
    const name = status?.user?.username;
    if (status?.authenticated !== true || name === undefined || name === '') return null;
    // An authenticator that knows nothing of audiences leaves them out: then the token is not bound to ours.
    if (audiences !== null && !audiences.some((audience) => status.audiences?.includes(audience))) return null;
    return { name, uid: status.user?.uid ?? '', groups: status.user?.groups ?? [] };
  }

  async #isAllowed({ name, uid, groups }: KubernetesIdentity, access: ResourceAccess): Promise<boolean> {
    const { namespace } = this.#options;
    const { verb, resource } = access;
    const key = createHash('sha256')
      .update(JSON.stringify([name, uid, groups, verb, resource]))
      .digest('base64');
    const known = this.#allowed.get(key);
    if (known !== undefined) return known.allowed;
    const allowed = await this.#once(`access ${key}`, async () => {
      const { status } = await this.#requests.send<SubjectAccessReview>({
        method: 'POST',
        path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
        body: {
          apiVersion: 'authorization.k8s.io/v1',
          kind: 'SubjectAccessReview',
          spec: {
            user: name,
            groups,
            ...(uid === '' ? {} : { uid }),
            resourceAttributes: { group: GROUP, resource, verb, ...(namespace === null ? {} : { namespace }) },
          },
        },
        timeoutMs: TIMEOUT_MS,
      });
      return status?.allowed === true && status.denied !== true;
    });
    this.#allowed.set(key, { allowed });
    return allowed;
  }

  /** Asks a question once, however many calls wait for its answer. */
  #once<T>(key: string, ask: () => Promise<T>): Promise<T> {
    const waiting = this.#pending.get(key);
    if (waiting !== undefined) return waiting as Promise<T>;
    if (this.#pending.size >= MAX_PENDING) return Promise.reject(away(new Error('too many questions wait')));
    const asked = ask().catch((cause: unknown) => Promise.reject(away(cause)));
    this.#pending.set(key, asked);
    const forget = () => void this.#pending.delete(key);
    asked.then(forget, forget);
    return asked;
  }
}

function away(cause: unknown): GatewayError {
  const message = 'The Kubernetes API server does not answer whether the call is allowed; try again soon.';
  return new GatewayError('EG_IDENTITY_UNAVAILABLE', message, { cause });
}
