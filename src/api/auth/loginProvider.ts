import type { OidcLogin } from './oidcLogin.ts';
import type { RoleMapping } from './privileges.ts';

/** An OpenID provider at which users log in. */
export interface LoginProvider {
  /** Name in sessions and callback URLs; `oauth` of `authentication.oauth`. */
  readonly name: string;
  /** What the login page calls it. */
  readonly label: string;
  readonly login: OidcLogin;
  /** Where the browser goes after a login. */
  readonly redirectWebUrl: string;
  /** Roles by the privileges of its tokens; null: by those of `authorization`. */
  readonly rolesOf: RoleMapping | null;
}
