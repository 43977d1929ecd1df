import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';
import { each, listOf, mapOf, oneOf, optionalSection, text } from '../fields.ts';

/** Claims that tokens must have in addition to what is always checked. */
export const requiredClaims = mapOf(
  'Claims that a token must have, with their values; a dotted name is a path.',
  each(),
);

/** Prefix of user names, so that two issuers cannot give the same name. */
export const userPrefix = text(
  'What stands before the names of its users, so that they are not those of others; unset, `{name}/`. Empty, its users are taken for those of the same name elsewhere.',
);

export const callerClaims = {
  userIdField: text('Claim that holds the user name.', { default: 'sub' }),
  privilegesField: text('Claim that holds the privileges; a list is joined by `_`. Unset, they are looked up by name.'),
};

export const roleKeys = {
  admin: text('Privileges that give the role ADMIN.', { format: 'javaRegex' }),
  user: text('Privileges that give the role USER.', { format: 'javaRegex' }),
  api: text('Privileges that give the role API.', { format: 'javaRegex' }),
};

/** Roles by the privileges of one issuer's tokens alone. */
export const issuerRoles = optionalSection(
  'Which privileges of its tokens give which role, in place of `authorization.admin`, `user` and `api`; must be given, `{}` gives none.',
  roleKeys,
);

/** Keys of an issuer whose tokens are verified, without those of what becomes of its users. */
export const tokenIssuer = {
  issuer: text('Issuer that its tokens name (`iss`), exactly.', { required: true, format: 'url' }),
  jwksUrl: text('Its keys; unset, they are discovered from the issuer (OpenID Connect Discovery).', { format: 'url' }),
  audiences: listOf('Audiences of which a token must name one.', each(), { required: true }),
  algorithms: listOf('Signature algorithms that are accepted.', oneOf(signatureAlgorithms), {
    default: signatureAlgorithms,
  }),
  requiredClaims,
  userPrefix,
};
