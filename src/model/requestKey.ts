/**
 * Form of a request key: user, source, session, or header:NAME with the characters of a field name (RFC 9110 §5.6.2).
 * Valid in RE2 too, as the API server compiles it.
 */
export const REQUEST_KEY_FORM = "^(user|source|session|header:[-!#$%&'*+.^_`|~0-9A-Za-z]{1,128})$";

/** Form of the name of a header. */
export const HEADER_NAME_FORM = "^[-!#$%&'*+.^_`|~0-9A-Za-z]{1,128}$";
