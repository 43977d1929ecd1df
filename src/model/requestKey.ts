/**
 * Form of the name of a key of requests: user, source, session, or header:NAME with the characters of a field name
 * (RFC 9110 §5.6.2). RE2 as well, as the API server compiles it.
 */
export const REQUEST_KEY_FORM = "^(user|source|session|header:[-!#$%&'*+.^_`|~0-9A-Za-z]{1,128})$";
