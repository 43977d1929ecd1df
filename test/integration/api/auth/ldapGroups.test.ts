/** Groups of a real LDAP server: many users at once, and more groups than one answer holds. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { GroupSearch, LdapServer } from '../../../../src/api/auth/ldapServer.ts';
import { ldapServers } from '../../../../src/api/auth/openAuthentication.ts';
import { type LdapTestServer, ldapAvailable, startLdapServer } from '../../../support/ldapServer.ts';

/** Groups that `ann` is in. */
const MANY = 600;

const unit = (ou: string) => `dn: ou=${ou},dc=example,dc=com\nobjectClass: organizationalUnit\nou: ${ou}\n\n`;
const person = (uid: string) =>
  `dn: uid=${uid},ou=people,dc=example,dc=com\nobjectClass: inetOrgPerson\nuid: ${uid}\ncn: ${uid}\nsn: ${uid}\n` +
  `employeeType: team-${uid}\n\n`;
const groupOf = (cn: string, member: string) =>
  `dn: cn=${cn},ou=groups,dc=example,dc=com\nobjectClass: groupOfNames\ncn: ${cn}\nmember: uid=${member},ou=people,dc=example,dc=com\n\n`;

const uids = Array.from({ length: 64 }, (_, index) => `user-${index}`);
const many = Array.from({ length: MANY }, (_, index) => `group-${index}`);
const tree = [
  ...[unit('people'), unit('groups'), person('ann')],
  ...uids.map(person),
  ...many.map((cn) => groupOf(cn, 'ann')),
  groupOf('only', 'user-0'),
].join('');

const search: GroupSearch = {
  groupBaseDn: 'ou=groups,dc=example,dc=com',
  groupFilter: '(objectClass=groupOfNames)',
  memberAttribute: 'member',
  nameAttribute: 'cn',
  nested: true,
};

describe.skipIf(!ldapAvailable)('groups of a real LDAP server', () => {
  let folder: string;
  const started: LdapTestServer[] = [];
  let paged: LdapServer;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'ldap-many-'));
    paged = await directory('size.soft=500 size.hard=500 size.prtotal=unlimited');
  });
  afterAll(async () => {
    for (const server of started) await server.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** @param sizeLimit as slapd.conf has it */
  const directory = async (sizeLimit: string): Promise<LdapServer> => {
    const server = await startLdapServer(tree, undefined, sizeLimit);
    started.push(server);
    const path = join(folder, `${server.port}.yaml`);
    const lines = [
      `ldapHost: 127.0.0.1\nldapPort: ${server.port}`,
      'ldapAdminBindDn: cn=reader,dc=example,dc=com\nldapAdminPassword: reader-secret',
      `ldapUserBaseDn: ou=people,dc=example,dc=com\nldapUserSearch: (uid=\${USER})\nldapGroupMemberAttribute: employeeType\n`,
    ];
    await writeFile(path, lines.join('\n'));
    const opened = await ldapServers({})(path, 'ldap');
    if (opened === null) throw new Error('there is no LDAP server');
    return opened;
  };

  test('as many users as are looked up at a time find a connection', async () => {
    const asked = await Promise.all(uids.map((uid) => paged.groupsOf(uid, { ...search, groupBaseDn: null })));
    expect(asked).toEqual(uids.map((uid) => ({ groups: [`team-${uid}`] })));
  });

  test('more groups than one answer holds are asked for in pages', async () => {
    const { groups, note } = await paged.groupsOf('ann', search);
    expect([groups.toSorted(), note]).toEqual([many.toSorted(), undefined]);
  });

  test('where the server gives no more, the groups that it gives count, with a note', async () => {
    const server = await directory('100');
    const { groups, note } = await server.groupsOf('ann', search);
    expect(groups).toHaveLength(100);
    expect(note).toBe('not all groups: the LDAP server limits the entries of a search (size limit)');
    expect(await server.groupsOf('user-0', search)).toEqual({ groups: ['only'] });
  });
});
