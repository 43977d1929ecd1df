import type { CertificateNames } from '../../model/certificateNames.ts';
import type { NameMapping, RequestUser } from '../../model/requestUser.ts';
import type { Claims } from './jwtClaims.ts';
import type { UserSource } from './userExtractor.ts';
import type { UserNamespace } from './userNamespace.ts';

export interface UserEvidence {
  /**
   * `exchange`: the provider's response about a bearer token; `tokenReview`: that of the Kubernetes API server;
   * `login`: of the API; `none`: there is no user.
   */
  readonly source: UserSource | 'exchange' | 'tokenReview' | 'certificate' | 'login' | 'none';
  /** Claims of the user's JWT, or null. */
  readonly claims: Claims | null;
  /** Valid group names of these claims, with several issuers; default: any. */
  readonly groupNamespace?: UserNamespace;
  readonly isVerified: boolean;
  readonly certificate?: CertificateNames;
  /** The provider's response about the user's token, if any. */
  readonly userInfo?: Claims;
  /** Groups of the user's service account, if any. */
  readonly kubernetesGroups?: readonly string[];
}

const none: UserEvidence = { source: 'none', claims: null, isVerified: false };

export function byCertificate(certificate: CertificateNames): UserEvidence {
  return { source: 'certificate', claims: null, isVerified: true, certificate };
}

export function byTokenReview(kubernetesGroups: readonly string[]): UserEvidence {
  return { source: 'tokenReview', claims: null, isVerified: true, kubernetesGroups };
}

export const byLogin: UserEvidence = { source: 'login', claims: null, isVerified: true };

const byExchange: UserEvidence = { source: 'exchange', claims: null, isVerified: true };

/** A user with its evidence, which stays in this process: it is not stored. */
export class EvidentUser implements RequestUser {
  readonly user: string;
  readonly userInfo = null;
  readonly mapping?: NameMapping;
  readonly #evidence: UserEvidence;

  /** @param mapping result of the user mapping; absent if the name is not mapped */
  constructor(user: string, evidence: UserEvidence, mapping?: NameMapping) {
    this.user = user;
    if (mapping !== undefined) this.mapping = mapping;
    this.#evidence = evidence;
  }

  static evidenceOf(user: RequestUser): UserEvidence {
    if (#evidence in user) return user.#evidence;
    return user.userInfo === null ? none : { ...byExchange, userInfo: user.userInfo };
  }
}
