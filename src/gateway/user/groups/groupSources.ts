import type { GroupSourceName, SourceGroups } from '../../../model/membership.ts';
import type { ProductNames } from '../../../model/names.ts';
import { headerValues, type RawHeaders } from '../../../model/rawHeaders.ts';
import { plainAddress, type TrustPeer } from '../../headers/trustedProxies.ts';
import { type Claims, claimOf } from '../jwtClaims.ts';
import type { UserEvidence } from '../userEvidence.ts';
import { certificateValues } from '../userMapping.ts';
import { userName } from '../userName.ts';
import type { UserNamespace } from '../userNamespace.ts';
import type { RememberedGroups } from './rememberedGroups.ts';

export interface Asker {
  /** Null: no user was recognized. */
  readonly user: string | null;
  /**
   * Reason that the name is unverified, a sentence for users; null if it was verified, or if the configuration lists
   * its source in `userGroups.claimedUsers`.
   */
  readonly doubt: string | null;
  readonly evidence: UserEvidence;
  readonly headers: RawHeaders;
  readonly address: string | undefined;
}

/** Groups from a source, with a note if they are missing or stale. */
export type SourceResponse = Pick<SourceGroups, 'groups' | 'note'>;

/** A source of user groups (docs/identity.md#sources). */
export interface GroupSource {
  readonly name: GroupSourceName;
  /** Returns the groups of a user; synchronously if possible. Neither throws nor rejects. */
  groupsOf(asker: Asker): SourceResponse | Promise<SourceResponse>;
  /** Returns the groups without network access, for described requests; absent if that is `groupsOf`. */
  describedGroupsOf?(asker: Asker): SourceResponse;
}

/** Settings `userGroups.token` and `userGroups.userInfo`. */
export interface GroupClaimSettings {
  /** Name of the claim; a dotted name without an exact match is a path. */
  readonly claim: string;
  readonly delimiter: string;
}

/** Settings `userGroups.header`. */
export interface GroupHeaderSettings {
  readonly name: string;
  readonly delimiter: string;
}

/** Maximum number of groups of a user from one source; further ones are dropped. */
export const MAX_GROUPS = 1_000;

export const MAX_GROUP_LENGTH = 512;

/** The text if it is a valid group name: as for users, up to `MAX_GROUP_LENGTH`; null otherwise. */
export function groupName(value: unknown): string | null {
  const name = userName(typeof value === 'string' ? value.trim() : value);
  return name === null || name.length > MAX_GROUP_LENGTH ? null : name;
}

/** Valid group names, without duplicates, at most `MAX_GROUPS`. */
export function groupNames(values: readonly unknown[]): readonly string[] {
  const names = new Set<string>();
  for (const value of values) {
    const name = groupName(value);
    if (name !== null && names.size < MAX_GROUPS) names.add(name);
  }
  return [...names];
}

/** Result of a lookup for an unverified name; null for a verified one. */
export function unbelieved({ user, doubt }: Asker): SourceResponse | null {
  if (user === null) return none('no user was recognised');
  return doubt === null ? null : none(doubt);
}

/** Groups from a claim of the user's JWT. */
export function tokenClaimGroups(settings: GroupClaimSettings): GroupSource {
  return {
    name: 'token',
    groupsOf({ doubt, evidence: { source, claims, groupNamespace = null } }) {
      if (claims === null) return none(`the user does not come from a JWT (${source})`);
      return doubt === null ? claimedGroups(claims, settings, groupNamespace) : none(doubt);
    },
  };
}

/**
 * Groups from a claim of the provider's UserInfo response for the user's token (OpenID Connect).
 * @param names valid group names of the provider; null: any
 */
export function userInfoGroups(settings: GroupClaimSettings, names: UserNamespace | null): GroupSource {
  return {
    name: 'userInfo',
    groupsOf({ evidence: { source, userInfo } }) {
      if (userInfo === undefined) return none(`the user does not come from a token exchange (${source})`);
      return claimedGroups(userInfo, settings, names);
    },
  };
}

/** Groups of a service account from the Kubernetes API server. */
export const tokenReviewGroups: GroupSource = {
  name: 'tokenReview',
  groupsOf({ evidence: { source, kubernetesGroups } }) {
    if (kubernetesGroups === undefined) {
      return none(`the user does not come from a token of a service account (${source})`);
    }
    return { groups: groupNames(kubernetesGroups) };
  },
};

/** Groups from a field of the client certificate. @param field as `clientCertificateIdentityField` */
export function certificateGroups(field: string): GroupSource {
  return {
    name: 'certificate',
    groupsOf({ evidence: { source, certificate } }) {
      if (certificate === undefined) return none(`the user does not come from a client certificate (${source})`);
      return { groups: groupNames(certificateValues(certificate, field)) };
    },
  };
}

/**
 * Groups from a header that proxies in `server.trustedProxies` set; ignored from others.
 * @param isProxy true for configured addresses; trusting all peers would allow arbitrary groups
 */
export function headerGroups(settings: GroupHeaderSettings, isProxy: TrustPeer, names: ProductNames): GroupSource {
  const { name, delimiter } = settings;
  const key = names.ownHeader(name).toLowerCase();
  const describedGroupsOf = ({ headers }: Asker): SourceResponse => {
    const lines = headerValues(headers, key);
    if (lines.length === 0) return none(`there is no header ${name}`);
    return { groups: groupNames(lines.flatMap((line) => line.split(delimiter))) };
  };
  return {
    name: 'header',
    groupsOf: (asker) =>
      isProxy(plainAddress(asker.address))
        ? describedGroupsOf(asker)
        : none('the connection is not of a proxy in server.trustedProxies'),
    describedGroupsOf,
  };
}

/**
 * Groups of an LDAP directory.
 * @param lookUp groups of a user, with a note if they are incomplete; rejects if the directory is unavailable, with a
 * sentence for users
 */
export function ldapGroups(
  lookUp: (user: string) => Promise<SourceResponse>,
  remembered: RememberedGroups,
): GroupSource {
  return {
    name: 'ldap',
    groupsOf(asker) {
      const { user } = asker;
      return unbelieved(asker) ?? remembered.of(user ?? '', () => lookUp(user ?? ''));
    },
    describedGroupsOf: (asker) => unbelieved(asker) ?? remembered.remembered(asker.user ?? ''),
  };
}

/**
 * The groups in a claim, with the prefix of their issuer; without groups of another issuer
 * (docs/request-user.md#several-issuers), which a note counts.
 * @param names null: any
 */
export function claimedGroups(
  claims: Claims,
  { claim, delimiter }: GroupClaimSettings,
  names: UserNamespace | null,
): SourceResponse {
  const value = claimOf(claims, claim);
  if (value === undefined || value === null) return none(`there is no claim ${claim}`);
  const values: unknown = typeof value === 'string' ? value.split(delimiter) : value;
  if (!Array.isArray(values)) return none(`the claim ${claim} is neither a list nor a text`);
  const named = groupNames(values);
  if (names === null) return { groups: named };
  const own = named.flatMap((group) => names.nameOf(group) ?? []);
  const foreign = named.length - own.length;
  const groups = names.prefix === '' ? own : groupNames(own);
  if (foreign === 0) return { groups };
  const subject = foreign === 1 ? 'one group is' : `${foreign} groups are`;
  return { groups, note: `${subject} left out: the names begin with the groupPrefix of another issuer` };
}

function none(note: string): SourceResponse {
  return { groups: [], note };
}
