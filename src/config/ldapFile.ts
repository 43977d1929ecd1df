import type { Environment } from './environment.ts';
import { flag, integer, section, text, type ValueOf } from './fields.ts';
import { readText } from './loadConfig.ts';
import { readBySchema } from './reader.ts';
import { type ConfigProblem, readSource } from './source.ts';

/** Stands for the user's name in filter and DN. */
// biome-ignore lint/suspicious/noTemplateCurlyInString: the placeholder of the file, not of a template
export const USER_MARK = '${USER}';

const pool = 'connections are made when they are needed';
const roleMap = 'authorization.admin, user and api give roles by privileges';

/** The file of an LDAP server, under the keys of the reference (docs/authentication.md#names-and-passwords). */
const ldapFile = section(
  'An LDAP server.',
  {
    ldapHost: text('Host of the server.', { required: true, format: 'host' }),
    ldapPort: integer('Its port.', { required: true, range: [1, 65_535] }),
    useTls: flag('Whether the connection is upgraded by StartTLS.', { default: false }),
    useSsl: flag('Whether the connection is TLS from the start (ldaps).', { default: false }),
    ldapAdminBindDn: text('DN that searches; unset, searches are anonymous.'),
    ldapAdminPassword: text('Its password.', { secret: true }),
    ldapUserBaseDn: text('DN under which users are searched.'),
    ldapUserSearch: text(`Filter that finds a user, e.g. (uid=${USER_MARK}); the name is escaped.`),
    ldapUserDnPattern: text(
      `DN of a user, e.g. uid=${USER_MARK},ou=people,dc=example,dc=com: logins bind as it without a search.`,
    ),
    ldapGroupMemberAttribute: text("Attribute of a user's entry whose values, joined by `_`, are the privileges.", {
      default: 'memberOf',
    }),
    ldapTrustStorePath: text('PEM file of certificate authorities; unset, those of the system.', { format: 'path' }),
    ldapTrustStorePassword: text('Password of a key store.', {
      secret: true,
      withoutEffect: 'certificates of authorities are not secret',
    }),
  },
  {
    ignored: {
      ...{ poolMaxIdle: pool, poolMaxTotal: pool, poolMinIdle: pool, poolTestOnBorrow: pool },
      ...{ groupAdminRoleMap: roleMap, groupUserRoleMap: roleMap, groupApiRoleMap: roleMap },
    },
  },
);

export type LdapSettings = ValueOf<typeof ldapFile>;

/**
 * Reads the file of an LDAP server.
 * @param environment variables for `${ENV:NAME}`
 */
export async function loadLdapFile(
  path: string,
  environment: Environment,
): Promise<{ readonly settings: LdapSettings } | { readonly problems: readonly ConfigProblem[] }> {
  const read = await readText(path);
  if ('problem' in read) return { problems: [read.problem] };
  const source = readSource(read.text, environment);
  if (source.problems.length > 0) return { problems: source.problems };
  const { value, problems } = readBySchema(ldapFile, source.root);
  const settings = value as LdapSettings;
  const mistakes = problems.length > 0 ? problems : inconsistencies(settings);
  return mistakes.length > 0 ? { problems: mistakes } : { settings };
}

function inconsistencies(settings: LdapSettings): readonly ConfigProblem[] {
  const { ldapUserSearch, ldapUserDnPattern, ldapUserBaseDn, ldapAdminBindDn, ldapAdminPassword } = settings;
  const isFilter = ldapUserSearch === null || /^\(.*\$\{USER\}.*\)$/s.test(ldapUserSearch);
  const isDn = ldapUserDnPattern === null || /^[A-Za-z][A-Za-z0-9-]*=[^,]*\$\{USER\}/.test(ldapUserDnPattern);
  const dn = `uid=${USER_MARK},ou=people,dc=example,dc=com`;
  const isUserMissing = ldapUserSearch === null && ldapUserDnPattern === null;
  const mistakes: readonly (readonly [boolean, field: string, message: string])[] = [
    [isUserMissing, 'ldapUserSearch', 'must be given with ldapUserBaseDn, or ldapUserDnPattern instead'],
    [!isFilter, 'ldapUserSearch', `must be a filter that holds ${USER_MARK}`],
    [ldapUserSearch !== null && ldapUserBaseDn === null, 'ldapUserBaseDn', 'must be given, as ldapUserSearch is'],
    [!isDn, 'ldapUserDnPattern', `must be a DN that holds ${USER_MARK}, such as ${dn}`],
    [settings.useTls && settings.useSsl, 'useTls', 'must not be true where useSsl is: TLS is there from the start'],
    [ldapAdminBindDn !== null && !ldapAdminPassword, 'ldapAdminPassword', 'must be given, as ldapAdminBindDn is'],
  ];
  return mistakes.flatMap(([isMistake, field, message]) => (isMistake ? [{ field, line: null, message }] : []));
}
