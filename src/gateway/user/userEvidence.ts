import type { CertificateNames } from '../../model/certificateNames.ts';
import type { NameMapping, RequestUser } from '../../model/requestUser.ts';
import type { Claims } from './jwtClaims.ts';
import type { UserSource } from './userExtractor.ts';
import type { UserNamespace } from './userNamespace.ts';

/** What says who the user of a request is. */
export interface UserEvidence {
  /** `exchange`: the provider's answer about a bearer token; `tokenReview`: that of the Kubernetes API server; `login`: of the API; `none`: there is no user. */
  readonly source: UserSource | 'exchange' | 'tokenReview' | 'certificate' | 'login' | 'none';
  /** Claims of a JWT that the user was taken from; null for none. */
  readonly claims: Claims | null;
  /** Names of the groups that these claims name, where there are several issuers; left out for any. */
  readonly groupNamespace?: UserNamespace;
  /** Whether more than a claim of the client says who the user is. */
  readonly isVerified: boolean;
  /** Names in the client certificate that the user was taken from; left out for none. */
  readonly certificate?: CertificateNames;
  /** The provider's answer about the token that the user was taken from; left out for none. */
  readonly userInfo?: Claims;
  /** Groups of the service account whose token names the user; left out for none. */
  readonly kubernetesGroups?: readonly string[];
}

const none: UserEvidence = { source: 'none', claims: null, isVerified: false };

/** Of the user of a client certificate. */
export function byCertificate(certificate: CertificateNames): UserEvidence {
  return { source: 'certificate', claims: null, isVerified: true, certificate };
}

/** Of a service account, by its token. */
export function byTokenReview(kubernetesGroups: readonly string[]): UserEvidence {
  return { source: 'tokenReview', claims: null, isVerified: true, kubernetesGroups };
}

/** Of a caller of the API who has logged in. */
export const byLogin: UserEvidence = { source: 'login', claims: null, isVerified: true };

/** Of a user whom the provider named for a token. */
const byExchange: UserEvidence = { source: 'exchange', claims: null, isVerified: true };

/** A user with what names it. That is of this process alone: what is kept of users does not have it. */
export class EvidentUser implements RequestUser {
  readonly user: string;
  readonly userInfo = null;
  readonly mapping?: NameMapping;
  readonly #evidence: UserEvidence;

  /** @param mapping what the user mapping did; left out where the name is not mapped */
  constructor(user: string, evidence: UserEvidence, mapping?: NameMapping) {
    this.user = user;
    if (mapping !== undefined) this.mapping = mapping;
    this.#evidence = evidence;
  }

  /** What says who a user is. */
  static evidenceOf(user: RequestUser): UserEvidence {
    if (#evidence in user) return user.#evidence;
    return user.userInfo === null ? none : { ...byExchange, userInfo: user.userInfo };
  }
}
