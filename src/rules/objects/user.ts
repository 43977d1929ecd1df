import type { RequestUser } from '../../model/requestUser.ts';
import { type Evaluation, EvaluationError } from '../evaluation.ts';
import { MethodTable } from '../library/methodTable.ts';
import { JavaList, JavaMap, JavaSet } from '../values/collections.ts';
import { emptyOptional, JavaDouble, JavaLong, JavaObject, JavaOptional, type Value } from '../values/value.ts';

/** The object `engineRequestUser` (docs/rules.md#objects). */
export class UserObject extends JavaObject {
  readonly kind = 'user';
  readonly user: RequestUser;

  readonly name: JavaOptional;
  #groups: JavaSet | null = null;

  constructor(user: RequestUser) {
    super();
    this.user = user;
    this.name = user.user === null ? emptyOptional : new JavaOptional(user.user);
  }

  /** Result of getGroups(): created once; immutable for rules. */
  groups(e: Evaluation): JavaSet {
    if (this.#groups === null) {
      const set = new JavaSet('insertion', true);
      for (const group of this.user.membership?.groups ?? []) set.fill(group, e);
      this.#groups = set;
    }
    return this.#groups;
  }
}

/** OpenID Connect user info: claims by name. */
export class UserInfoObject extends JavaObject {
  readonly kind = 'userInfo';
  readonly claims: ReadonlyMap<string, unknown>;

  constructor(claims: Readonly<Record<string, unknown>>) {
    super();
    this.claims = new Map(Object.entries(claims));
  }

  /** A claim's text; null if missing or not a text. */
  text(name: string): string | null {
    const claim = this.claims.get(name);
    return typeof claim === 'string' ? claim : null;
  }
}

export const userMethods = new MethodTable('request user', 'request')
  .add('getUser', [], (_e, self: UserObject) => self.name, { reads: 'user' })
  .add('getUserInfo', [], (_e, self: UserObject) =>
    self.user.userInfo === null ? emptyOptional : new JavaOptional(new UserInfoObject(self.user.userInfo)),
  )
  .add('userExistsAndEquals', ['string'], (_e, self: UserObject, name) => self.user.user === name && name !== '', {
    reads: 'user',
  })
  .add('getGroups', [], (e, self: UserObject) => self.groups(e), { reads: 'group' })
  .add(
    'isInGroup',
    ['string'],
    (_e, self: UserObject, group) => self.user.membership?.groups.includes(group) === true,
    { reads: 'group' },
  );

export const userInfoMethods = new MethodTable('UserInfo', 'operands')
  .add('getSubject', [], (_e, self: UserInfoObject) => self.text('sub'))
  .add('getName', [], (_e, self: UserInfoObject) => self.text('name'))
  .add('getGivenName', [], (_e, self: UserInfoObject) => self.text('given_name'))
  .add('getFamilyName', [], (_e, self: UserInfoObject) => self.text('family_name'))
  .add('getPreferredUsername', [], (_e, self: UserInfoObject) => self.text('preferred_username'))
  .add('getEmailAddress', [], (_e, self: UserInfoObject) => self.text('email'))
  .add('getStringClaim', ['string'], (_e, self: UserInfoObject, name) => self.text(name))
  .add('getClaim', ['string'], (e, self: UserInfoObject, name) => fromJson(self.claims.get(name) ?? null, e))
  .add('getStringListClaim', ['string'], (e, self: UserInfoObject, name) => {
    const claim = self.claims.get(name);
    return Array.isArray(claim)
      ? fromJson(
          claim.filter((item) => typeof item === 'string'),
          e,
        )
      : null;
  });

/** A JSON value as a value of the language; at most 32 levels deep. */
function fromJson(json: unknown, e: Evaluation, depth = 0): Value {
  if (depth > 32) throw new EvaluationError('a claim is nested too deep');
  if (json === null || typeof json === 'string' || typeof json === 'boolean') return json;
  if (typeof json === 'number') {
    if (!Number.isInteger(json)) return new JavaDouble(json);
    return Math.abs(json) < 2_147_483_648 ? json : new JavaLong(BigInt(json));
  }
  if (Array.isArray(json)) {
    e.reserveElements(json.length, json.length);
    return new JavaList(
      json.map((item) => fromJson(item, e, depth + 1)),
      'immutable',
    );
  }
  const map = new JavaMap('insertion', true);
  for (const [key, value] of Object.entries(json as object)) map.fill(key, fromJson(value, e, depth + 1), e);
  return map;
}
