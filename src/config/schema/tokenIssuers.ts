import { signatureAlgorithms } from '../../model/signatureAlgorithms.ts';
import { choice, listOf, mapOf, optionalSection, text } from '../fields.ts';

/** Claims that tokens must have in addition to what is always checked. */
export const requiredClaims = mapOf(text({ description: 'Value that the claim has, or has among its values.' }), {
  description: 'Claims that a token must have, with their values; a dotted name is a path.',
  default: {},
});

/** Prefix of user names, so that two issuers cannot give the same name. */
export const userPrefix = text({
  description:
    'What stands before the names of its users, so that they are not those of others; unset, `{name}/`. Empty, its users are taken for those of the same name elsewhere.',
  default: null,
});

/** Roles by the privileges of one issuer's tokens alone. */
export const issuerRoles = optionalSection(
  {
    admin: text({ description: 'Privileges that give the role ADMIN.', default: null, format: 'javaRegex' }),
    user: text({ description: 'Privileges that give the role USER.', default: null, format: 'javaRegex' }),
    api: text({ description: 'Privileges that give the role API.', default: null, format: 'javaRegex' }),
  },
  {
    description:
      'Which privileges of its tokens give which role, in place of `authorization.admin`, `user` and `api`; must be given, `{}` gives none.',
  },
);

/** Keys of an issuer whose tokens are verified, without those of what becomes of its users. */
export const tokenIssuer = {
  issuer: text({ description: 'Issuer that its tokens name (`iss`), exactly.', format: 'url' }),
  jwksUrl: text({
    description: 'Its keys; unset, they are discovered from the issuer (OpenID Connect Discovery).',
    default: null,
    format: 'url',
  }),
  audiences: listOf(text({ description: 'Audience.' }), {
    description: 'Audiences of which a token must name one.',
  }),
  algorithms: listOf(choice(signatureAlgorithms, { description: 'Algorithm.' }), {
    description: 'Signature algorithms that are accepted.',
    default: signatureAlgorithms,
  }),
  requiredClaims,
  userPrefix,
};
