import { createHash } from 'node:crypto';
import type { KubeConfig } from '@kubernetes/client-node';
import { decodeJwt, decodeProtectedHeader } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Clock } from '../../model/clock.ts';
import { GatewayError } from '../../model/errors.ts';
import { growingTo } from '../../model/growingCache.ts';
import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';
import type { ApiServerCalls } from '../../operator/sources/kubernetes/apiServerCalls.ts';
import { KubeRequests } from '../../operator/sources/kubernetes/kubeApi.ts';
import {
  AttemptLimit,
  type AttemptLimits,
  type LoginSource,
  nearNetwork,
  type RecordAttempt,
  tooManyAttempts,
} from './attemptLimit.ts';
import { accessOfRole, type Caller, type ResourceAccess, roles } from './endpointAccess.ts';

const GROUP = 'enginegateway.dev';

/** Time for a response of the API server in milliseconds. */
const TIMEOUT_MS = 5_000;

/** Most responses kept about known callers, and about rejected tokens. */
const CAPACITY = 10_000;
const REJECTED_CAPACITY = 2_000;

/** Time for which a token that was accepted counts as one of a known caller, in milliseconds. */
const KNOWN_MS = 3_600_000;

/** True if a user may do something (authorization.k8s.io/v1), as far as it is read. */
interface SubjectAccessReview {
  readonly status?: { readonly allowed?: boolean; readonly denied?: boolean };
}

interface ReviewedToken {
  readonly identity: KubernetesIdentity;
  /** Its end, milliseconds since 1970; null if it names none. */
  readonly expires: number | null;
}

const REJECTED = 'The API server does not accept the token.';

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
  readonly #rejected: LRUCache<string, true>;
  /** Tokens that were accepted, also after their response has expired. */
  readonly #users: LRUCache<string, true>;
  readonly #allowed: LRUCache<string, { readonly allowed: boolean }>;
  readonly #questions = new ApiQuestions();
  readonly #sources: AttemptLimit;

  constructor(options: KubernetesAccessOptions) {
    this.#options = options;
    this.#requests = new KubeRequests(options.kubeConfig, options.calls);
    const times = { ttl: Math.max(1, options.cacheDuration), ttlResolution: 0 };
    const perf = { now: () => options.clock.monotonic() };
    this.#accepted = new LRUCache({ ...growingTo(CAPACITY), ...times, perf });
    this.#rejected = new LRUCache({ ...growingTo(REJECTED_CAPACITY), ...times, perf });
    this.#users = new LRUCache({ ...growingTo(CAPACITY), ...times, ttl: KNOWN_MS, perf });
    this.#allowed = new LRUCache({ ...growingTo(CAPACITY), ...times, perf });
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
    if (this.#rejected.has(key)) return REJECTED;
    const isKnown = this.#users.has(key);
    const wait = isKnown ? 0 : this.#sources.wait(source);
    if (wait > 0) throw tooManyAttempts(wait);
    const network = isKnown ? null : nearNetwork(source);
    const identity = await this.#questions.once(`review ${key}`, network, () =>
      reviewToken(this.#requests, token, this.#options.audiences, TIMEOUT_MS),
    );
    if (identity === null) {
      this.#users.delete(key);
      this.#rejected.set(key, true);
      this.#sources.add(source, -1);
      record(key, source, 'failed');
      return REJECTED;
    }
    this.#accepted.set(key, identity);
    this.#users.set(key, true);
    if (!isKnown) record(identity.name, source, 'succeeded');
    return { identity, expires };
  }

  /** The caller of an identity: what they may do is asked when it matters. */
  caller(identity: KubernetesIdentity): Caller {
    const may = async (resources: readonly ResourceAccess[], namespace = this.#options.namespace) => {
      const responses = resources.map((resource) => this.#isAllowed(identity, resource, namespace));
      return (await Promise.all(responses)).every(Boolean);
    };
    return {
      name: identity.name,
      by: 'kubernetes',
      method: 'kubernetes',
      roles: async () => {
        const responses = await Promise.all(roles.map((role) => may(accessOfRole(role).resources)));
        return new Set(roles.filter((_, index) => responses[index]));
      },
      permits: async ({ resources, orResources }, namespace) =>
        (await may(resources, namespace)) || (orResources !== undefined && (await may(orResources, namespace))),
    };
  }

  async #isAllowed(
    { name, uid, groups }: KubernetesIdentity,
    { verb, resource }: ResourceAccess,
    namespace: string | null,
  ): Promise<boolean> {
    const key = createHash('sha256')
      .update(JSON.stringify([name, uid, groups, verb, resource, namespace]))
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

/** Most concurrent questions: in all, about callers who are not known yet, and of these from one network. */
const MAX_OPEN = 64;
const MAX_NEW = 32;
const MAX_NEW_OF_NETWORK = 8;

/**
 * Questions that wait for a response of the API server, each response once however many calls wait for it. Half of the
 * room is kept for callers who are known, and no network takes more than a quarter of the rest.
 */
class ApiQuestions {
  readonly #open = new Map<string, Promise<unknown>>();
  /** Networks of the callers who are not known yet, a question each. */
  readonly #new = new Map<string, string>();

  /**
   * @param network where a caller who is not known yet comes from; null for one who is known
   * @throws GatewayError EG_TOO_MANY_ATTEMPTS where too many questions of the network wait, EG_IDENTITY_UNAVAILABLE
   *   where too many wait at all, and for any failure of `ask`
   */
  once<T>(key: string, network: string | null, ask: () => Promise<T>): Promise<T> {
    const waiting = this.#open.get(key);
    if (waiting !== undefined) return waiting as Promise<T>;
    const ofNetwork = [...this.#new.values()].filter((each) => each === network).length;
    if (network !== null && ofNetwork >= MAX_NEW_OF_NETWORK) {
      const message = 'Too many tokens from this address wait to be checked; try again in 1 s.';
      return Promise.reject(new GatewayError('EG_TOO_MANY_ATTEMPTS', message, { retryAfterSeconds: 1 }));
    }
    if (this.#open.size >= MAX_OPEN || (network !== null && this.#new.size >= MAX_NEW)) {
      return Promise.reject(identityUnavailable(new Error('too many questions wait')));
    }
    const response = ask()
      .catch((cause: unknown) => Promise.reject(identityUnavailable(cause)))
      .finally(() => {
        this.#open.delete(key);
        this.#new.delete(key);
      });
    this.#open.set(key, response);
    if (network !== null) this.#new.set(key, network);
    return response;
  }
}

function identityUnavailable(cause: unknown): GatewayError {
  const message = 'The Kubernetes API server does not answer whether the call is allowed; try again soon.';
  return new GatewayError('EG_IDENTITY_UNAVAILABLE', message, { cause });
}

/** Local expectations of Kubernetes tokens, checked before a call of the API server. */
interface TokenExpectations {
  /** `authentication.kubernetes.audiences`; null: the API server's own, which are not known here. */
  readonly audiences: readonly string[] | null;
  /** True if tokens that are not JWTs may be ones of the cluster. */
  readonly opaqueTokens: boolean;
}

/** Difference to the API server's clock that is forgiven, in milliseconds. */
const TOLERANCE_MS = 60_000;

const jwtForm = /^[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}\.[A-Za-z0-9_-]{2,}$/;

/**
 * Looks at a token without asking anybody: its form, its algorithm, its end, and the audience of tokens of service
 * accounts. Nothing of it is believed; it only keeps what cannot be right from the API server.
 * @param now milliseconds since 1970
 * @returns the end that it names, milliseconds since 1970, or null; or why the API server would not take it, as a sentence
 */
function plausibleToken(
  token: string,
  { audiences, opaqueTokens }: TokenExpectations,
  now: number,
): { readonly expires: number | null } | string {
  if (!jwtForm.test(token)) {
    return opaqueTokens
      ? { expires: null }
      : 'The token is not a JWT; clusters with other tokens need authentication.kubernetes.opaqueTokens: true.';
  }
  let claims: Readonly<Record<string, unknown>>;
  try {
    const algorithm = decodeProtectedHeader(token).alg;
    if (!signatureAlgorithms.some((name) => name === algorithm)) return 'The token is not signed.';
    claims = decodeJwt(token);
  } catch {
    return 'The token is not a JWT that can be read.';
  }
  const { exp, aud } = claims;
  if (exp !== undefined && typeof exp !== 'number') return 'The token is not a JWT that can be read.';
  if (exp !== undefined && exp * 1000 + TOLERANCE_MS <= now) return 'The token has expired.';
  // Other issuers' audiences are a matter of the API server's own configuration.
  if (audiences !== null && 'kubernetes.io' in claims && aud !== undefined) {
    const named = [aud].flat();
    if (!audiences.some((audience) => named.includes(audience))) return 'The token is for another audience.';
  }
  return { expires: exp === undefined ? null : exp * 1000 };
}

/** Used fields of a TokenReview (authentication.k8s.io/v1). */
interface TokenReview {
  readonly status?: {
    readonly authenticated?: boolean;
    readonly audiences?: readonly string[];
    readonly user?: { readonly username?: string; readonly uid?: string; readonly groups?: readonly string[] };
  };
}

interface KubernetesIdentity {
  readonly name: string;
  readonly uid: string;
  readonly groups: readonly string[];
}

/**
 * Asks the API server for the user of a token.
 * @param audiences of which the token must have one; null: the API server's own
 * @returns null for a token that it does not accept
 * @throws ApiException, or what the connection failed of
 */
export async function reviewToken(
  requests: KubeRequests,
  token: string,
  audiences: readonly string[] | null,
  timeoutMs: number,
): Promise<KubernetesIdentity | null> {
  const { status } = await requests.send<TokenReview>({
    method: 'POST',
    path: '/apis/authentication.k8s.io/v1/tokenreviews',
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token, ...(audiences === null ? {} : { audiences }) },
    },
    timeoutMs,
  });
  const name = status?.user?.username;
  if (status?.authenticated !== true || name === undefined || name === '') return null;
  // An authenticator that knows nothing of audiences leaves them out: then the token is not bound to ours.
  if (audiences !== null && !audiences.some((audience) => status.audiences?.includes(audience))) return null;
  return { name, uid: status.user?.uid ?? '', groups: status.user?.groups ?? [] };
}
