import { createHash } from 'node:crypto';
import type { KubeConfig } from '@kubernetes/client-node';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import { growingTo } from '../../model/growingCache.ts';
import type { ApiServerCalls } from '../../operator/sources/kubernetes/apiServerCalls.ts';
import { KubeRequests } from '../../operator/sources/kubernetes/kubeRequests.ts';
import { ApiQuestions } from './apiQuestions.ts';
import { AttemptLimit, type AttemptLimits, type RecordAttempt, tooManyAttempts } from './attemptLimit.ts';
import type { Caller, Role } from './caller.ts';
import { accessOfRole, type ResourceAccess } from './endpointAccess.ts';
import { type LoginSource, nearNetwork } from './loginSource.ts';
import { plausibleToken, type TokenExpectations } from './tokenForm.ts';
import { type KubernetesIdentity, reviewToken } from './tokenReview.ts';

const GROUP = 'enginegateway.dev';

/** Time for a response of the API server in milliseconds. */
const TIMEOUT_MS = 5_000;

/** Most answers kept about callers who are known, and about tokens that were rejected. */
const CAPACITY = 10_000;
const REFUSED_CAPACITY = 2_000;

/** Time for which a token that was accepted counts as one of a known caller, in milliseconds. */
const KNOWN_MS = 3_600_000;

/** True if a user may do something (authorization.k8s.io/v1), as far as it is read. */
interface SubjectAccessReview {
  readonly status?: { readonly allowed?: boolean; readonly denied?: boolean };
}

export interface ReviewedToken {
  readonly identity: KubernetesIdentity;
  /** Its end, milliseconds since 1970; null if it names none. */
  readonly expires: number | null;
}

const REFUSED = 'The API server does not accept the token.';

/** Requests to the API server, and cache times (`authentication.kubernetes`). */
export interface KubernetesAccessOptions extends TokenExpectations {
  readonly kubeConfig: KubeConfig;
  readonly calls: ApiServerCalls;
  /** Namespace of the resources that callers are asked about; null: all of them. */
  readonly namespace: string | null;
  /** Milliseconds. */
  readonly cacheDuration: number;
  /** Rejected tokens that one address may send. */
  readonly limits: AttemptLimits;
  readonly clock: Clock;
  readonly record: RecordAttempt;
}

/**
 * Callers as the Kubernetes API server knows them: a token by TokenReview, what its user may do by SubjectAccessReview,
 * so that RBAC is the one truth (docs/authentication.md#kubernetes). Responses are believed briefly; failures are never
 * kept. Tokens that are rejected have caches, room for questions and a limit of their own, so that they crowd out no
 * one who is known.
 */
export class KubernetesAccess {
  readonly #requests: KubeRequests;
  readonly #options: KubernetesAccessOptions;
  readonly #accepted: LRUCache<string, KubernetesIdentity>;
  readonly #refused: LRUCache<string, true>;
  /** Tokens that were accepted, also after their answer is no longer believed. */
  readonly #users: LRUCache<string, true>;
  readonly #allowed: LRUCache<string, { readonly allowed: boolean }>;
  readonly #questions = new ApiQuestions();
  readonly #sources: AttemptLimit;

  constructor(options: KubernetesAccessOptions) {
    this.#options = options;
    this.#requests = new KubeRequests(options.kubeConfig, options.calls);
    const perf = { now: () => options.clock.monotonic() };
    const ttl = Math.max(1, options.cacheDuration);
    this.#accepted = new LRUCache({ ...growingTo(CAPACITY), ttl, ttlResolution: 0, perf });
    this.#refused = new LRUCache({ ...growingTo(REFUSED_CAPACITY), ttl, ttlResolution: 0, perf });
    this.#users = new LRUCache({ ...growingTo(CAPACITY), ttl: KNOWN_MS, ttlResolution: 0, perf });
    this.#allowed = new LRUCache({ ...growingTo(CAPACITY), ttl, ttlResolution: 0, perf });
    this.#sources = new AttemptLimit(options.limits, options.clock, options.record);
  }

  /**
   * The user of a token, or why it is not accepted. A response of the API server is believed for `cacheDuration`, and
   * not beyond the end that the token names.
   * @throws GatewayError EG_IDENTITY_UNAVAILABLE; EG_TOO_MANY_ATTEMPTS where the source has sent too many rejected
   * tokens
   */
  async review(token: string, source: LoginSource): Promise<ReviewedToken | string> {
    const { clock, record } = this.#options;
    const plausible = plausibleToken(token, this.#options, clock.now());
    if (typeof plausible === 'string') return plausible;
    const { expires } = plausible;
    const key = createHash('sha256').update(token).digest('base64');
    const accepted = this.#accepted.get(key);
    const isOver = expires !== null && expires <= clock.now();
    if (accepted !== undefined && !isOver) return { identity: accepted, expires };
    if (this.#refused.has(key)) return REFUSED;
    const isKnown = this.#users.has(key);
    const wait = isKnown ? 0 : this.#sources.wait(source);
    if (wait > 0) throw tooManyAttempts(wait);
    const network = isKnown ? null : nearNetwork(source);
    const identity = await this.#questions.once(`review ${key}`, network, () =>
      reviewToken(this.#requests, token, this.#options.audiences, TIMEOUT_MS),
    );
    if (identity === null) {
      this.#users.delete(key);
      this.#refused.set(key, true);
      this.#sources.add(source, -1);
      record(key, source, 'failed');
      return REFUSED;
    }
    this.#accepted.set(key, identity);
    this.#users.set(key, true);
    if (!isKnown) record(identity.name, source, 'succeeded');
    return { identity, expires };
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
      method: 'kubernetes',
      roles: async () => {
        const answers = await Promise.all(every.map((role) => may(accessOfRole(role).resources)));
        return new Set(every.filter((_, index) => answers[index]));
      },
      permits: async ({ resources, orResources }) =>
        (await may(resources)) || (orResources !== undefined && (await may(orResources))),
    };
  }

  async #isAllowed({ name, uid, groups }: KubernetesIdentity, access: ResourceAccess): Promise<boolean> {
    const { namespace } = this.#options;
    const { verb, resource } = access;
    const key = createHash('sha256')
      .update(JSON.stringify([name, uid, groups, verb, resource]))
      .digest('base64');
    const entry = this.#allowed.get(key);
    if (entry !== undefined) return entry.allowed;
    const allowed = await this.#questions.once(`access ${key}`, null, async () => {
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
}
