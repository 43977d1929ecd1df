import type { IncomingMessage } from 'node:http';
import type { RequestUser } from '../../model/requestUser.ts';
import { userRefusal } from '../../routing/userRefusal.ts';
import type { GatewayAnswers } from '../exchanges/gatewayAnswers.ts';
import type { ProxiedRequest } from '../proxiedRequest.ts';
import { isAuthenticated } from '../user/authenticatedPaths.ts';
import type { MappedUsers } from '../user/mappedUsers.ts';
import type { RequestSteps } from './requestSteps.ts';

export interface UserMappingSteps {
  readonly users: MappedUsers;
  /** The user of a request, without groups. Neither throws nor rejects. */
  identity(request: IncomingMessage): RequestUser | Promise<RequestUser>;
}

export interface MappedRequestsDependencies {
  /** The user mapping; null: names of users stay as they are. */
  readonly mapping: UserMappingSteps | null;
  readonly steps: Pick<RequestSteps, 'settle'>;
  readonly answers: Pick<GatewayAnswers, 'refuse'>;
}

/**
 * The user mapping for requests that are no submissions (docs/identity.md#user-mapping): those of users whom it rejects
 * are rejected, and clusters get the names that it gives. Pages, logins and probes have no user.
 */
export class MappedRequests {
  readonly #dependencies: MappedRequestsDependencies;

  constructor(dependencies: MappedRequestsDependencies) {
    this.#dependencies = dependencies;
  }

  /**
   * Goes on with a request that may continue; immediately where no one has to be asked who sends it.
   * @param isOfQuery whether it is about a query that a cluster has taken: that continues whatever has become of its
   * user
   */
  pass(proxied: ProxiedRequest, isOfQuery: boolean, next: () => void): void {
    const { mapping, steps, answers } = this.#dependencies;
    const isMapped = mapping !== null && isAuthenticated(proxied.target.path);
    if (!isMapped || (isOfQuery && !mapping.users.rewritesHeader)) {
      next();
      return;
    }
    steps.settle(proxied, mapping.identity(proxied.request), (user) => {
      const refusal = isOfQuery ? null : userRefusal(user);
      if (refusal !== null) {
        answers.refuse(proxied, refusal);
        return;
      }
      noteUser(proxied, user);
      next();
    });
  }
}

/** Has clusters get the name of the user of a request, where the user mapping states so. */
export function noteUser(proxied: ProxiedRequest, { user, mapping }: RequestUser): void {
  if (user !== null && mapping?.isForwarded === true) proxied.forwardedUser = user;
}
