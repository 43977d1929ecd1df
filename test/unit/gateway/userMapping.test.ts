import { X509Certificate } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { certificateInHeader } from '../../../src/gateway/user/clientCertificates.ts';
import { openUserMapping, type UserMappingSettings } from '../../../src/gateway/user/userMapping.ts';
import { certificateNames, nameText } from '../../../src/model/certificateNames.ts';
import { productNames } from '../../../src/model/names.ts';
import { certificateFolder, hasOpenssl, type TestAuthority } from '../../support/certificates.ts';

const none: UserMappingSettings = {
  clientCertificateIdentityField: null,
  clientCertificateUserMappingPattern: null,
  clientCertificateUserMappingFile: null,
  clientCertificateUserExpression: null,
};
const byField = (field: string, pattern: string | null = null) => ({
  ...none,
  clientCertificateIdentityField: field,
  clientCertificateUserMappingPattern: pattern,
});
const byExpression = (expression: string) => ({ ...none, clientCertificateUserExpression: expression });

describe.skipIf(!hasOpenssl)('users of certificates', () => {
  let folder: ReturnType<typeof certificateFolder>;
  let authority: TestAuthority;
  beforeAll(() => {
    folder = certificateFolder();
    authority = folder.authority('clients');
  });
  afterAll(() => folder.dispose());

  const issued = (subject: string, names: readonly string[] = []) =>
    new X509Certificate(authority.issueTo(subject, names).cert);
  const open = async (settings: UserMappingSettings) => {
    const mapping = await openUserMapping(settings, productNames('Engine'));
    if (mapping === null) throw new Error('no mapping');
    return mapping;
  };

  // What X500Principal.toString() of JDK 25 prints for the same certificates.
  test.each([
    ['/C=DE/O=Example/OU=data/CN=alice', 'CN=alice, OU=data, O=Example, C=DE'],
    ['/CN=Doe\\, John/emailAddress=a@b.example/OU=x', 'OU=x, EMAILADDRESS=a@b.example, CN="Doe, John"'],
    ['/CN=quo"te\\\\back', 'CN="quo\\"te\\\\back"'],
    ['/CN= lead/O=two  spaces/OU=trail ', 'OU="trail ", O="two  spaces", CN=" lead"'],
    [
      '/DC=org/DC=example/UID=u1/CN=ä ö;x/serialNumber=7/title=Dr/SN=Sur/GN=Given/street=Way 1/L=Town/ST=State/initials=I/dnQualifier=q',
      'DNQ=q, INITIALS=I, ST=State, L=Town, STREET=Way 1, GIVENNAME=Given, SURNAME=Sur, T=Dr, SERIALNUMBER=7, CN="ä ö;x", UID=u1, DC=example, DC=org',
    ],
    ['/CN=#hash\\=1<2>/pseudonym=p', 'OID.2.5.4.65=p, CN="#hash=1<2>"'],
    ['/CN="quoted"/O=plain', 'O=plain, CN="quoted"'],
    ['/CN=a b_c*d/businessCategory=x', 'OID.2.5.4.15=x, CN=a b_c*d'],
  ])('the subject %s as engines write it', (subject, text) => {
    expect(nameText(certificateNames(issued(subject)).subject)).toBe(text);
  });

  const names = ['DNS:a.example', 'email:ann@b.example', 'URI:spiffe://prod/ns/data/sa/etl'];
  test.each<[string, UserMappingSettings, object]>([
    ['an attribute', byField('CN'), { user: 'ann' }],
    ['an attribute in any letters', byField('ou'), { user: 'data' }],
    ['an attribute by its object identifier', byField('oid.2.5.4.15'), { user: 'business' }],
    ['an empty pattern, which is none', byField('CN', ''), { user: 'ann' }],
    ['the whole subject', byField('SUBJECT_DN', '.*CN=([a-z]+), OU=data, .*'), { user: 'ann' }],
    ['an alternative name', byField('SAN_URI', '.*/sa/(.*)'), { user: 'etl' }],
    ['an address', byField('SAN_EMAIL', '(.*)@b\\.example'), { user: 'ann' }],
    ['a host', byField('SAN_DNS'), { user: 'a.example' }],
    ['what it has not', byField('UID'), { rejection: 'it has no UID, which users are taken from' }],
    ['another one', byField('CN', '(.*)@example\\.com'), { rejection: 'no rule for users matches it' }],
    ['an empty group', byField('CN', '()ann'), { rejection: 'the rule that matches it gives an empty user' }],
    ['an expression', byExpression('certificate.CN.toUpperCase() + "@" + certificate.O'), { user: 'ANN@Example' }],
    ['an expression of lists', byExpression('certificate.uris[0].split("/")[6]'), { user: 'etl' }],
    ['an expression for none', byExpression('certificate.OU == "x" ? certificate.CN : null'), expect.anything()],
    [
      'an expression that fails',
      byExpression('certificate.UID'),
      {
        rejection:
          'requestAnalyzerConfig.clientCertificateUserExpression fails for it: the map has no key UID; .get("UID") gives null instead',
      },
    ],
    [
      'an expression without end',
      byExpression('while (true) { }'),
      {
        rejection:
          "requestAnalyzerConfig.clientCertificateUserExpression fails for it: the request's budget of 10000 steps is used up",
      },
    ],
  ])('%s', async (_, settings, mapped) => {
    const mapping = await open(settings);
    expect(mapping(certificateNames(issued('/O=Example/OU=data/CN=ann/businessCategory=business', names)))).toEqual(
      mapped,
    );
  });

  test('of repeated attributes the one nearest to the leaf', async () => {
    const certificate = certificateNames(issued('/CN=root/O=Example/CN=leaf'));
    expect((await open(byField('CN')))(certificate)).toEqual({ user: 'leaf' });
    expect((await open(byExpression('certificate.CN')))(certificate)).toEqual({ user: 'leaf' });
  });

  test('names that could mean something else in a header are none', async () => {
    const mapping = await open(byField('SAN_URI'));
    const long = certificateNames(issued('/CN=x', [`URI:${'a'.repeat(2000)}`]));
    expect(mapping(long)).toEqual({ rejection: 'its name is empty, too long or has control characters' });
  });

  const fileWith = (value: unknown) => {
    const path = join(folder.path, 'mapping.json');
    writeFileSync(path, typeof value === 'string' ? value : JSON.stringify(value));
    return { clientCertificateUserMappingFile: path };
  };

  test('rules of a file, in their order', async () => {
    const rules = [
      { pattern: 'CN=admin,.*', allow: false },
      { pattern: 'CN=(.*), OU=([^,]*), .*', user: '$2-$1', case: 'UPPER' },
      { pattern: '.*CN=(.*)', case: 'lower' },
    ];
    const mapping = await open({ ...byField('SUBJECT_DN'), ...fileWith({ rules }) });
    const users = ['/O=x/OU=u/CN=admin', '/O=x/OU=u/CN=ann', '/CN=Bob', '/O=x'].map((subject) =>
      mapping(certificateNames(issued(subject))),
    );
    expect(users).toEqual([
      { rejection: 'it is not allowed' },
      { user: 'U-ANN' },
      { user: 'bob' },
      { rejection: 'no rule for users matches it' },
    ]);
  });

  test.each<[unknown, string]>([
    ['{', 'must be JSON such as {"rules": [{"pattern": "(.*)@example\\\\.com"}]}'],
    [{ rules: [] }, 'must be JSON such as'],
    [{ rules: [{ user: 'a' }] }, 'rules[0]: pattern must be a regular expression'],
    [{ rules: [{ pattern: '(' }] }, 'rules[0]: the pattern cannot be used: '],
    [{ rules: [{ pattern: 'a', user: '$x' }] }, 'rules[0]: the pattern cannot be used with user "$x": '],
    [{ rules: [{ pattern: 'a', deny: true }] }, 'rules[0]: "deny" is not known; there are pattern, user, allow, case'],
    [{ rules: [{ pattern: 'a', case: 'title' }] }, 'rules[0]: case must be keep, lower or upper'],
  ])('a file that holds %j is refused at the start', async (value, message) => {
    const settings = { ...byField('SUBJECT_DN'), ...fileWith(value) };
    await expect(openUserMapping(settings, productNames('Engine'))).rejects.toThrow(message);
  });

  test.each<[UserMappingSettings, string]>([
    [byField('CN', '('), 'requestAnalyzerConfig.clientCertificateUserMappingPattern: the pattern cannot be used: '],
    [
      byExpression('cert.CN'),
      'requestAnalyzerConfig.clientCertificateUserExpression: line 1, column 1: unknown variable cert',
    ],
    [
      { ...byField('CN'), clientCertificateUserMappingFile: '/nowhere.json' },
      'requestAnalyzerConfig.clientCertificateUserMappingFile: /nowhere.json: cannot be read (ENOENT).',
    ],
  ])('a mapping that cannot be used is refused at the start', async (settings, message) => {
    await expect(openUserMapping(settings, productNames('Engine'))).rejects.toThrow(message);
  });

  test('rules that deny need the whole subject', async () => {
    const settings = { ...byField('CN'), ...fileWith({ rules: [{ pattern: 'CN=admin,.*', allow: false }] }) };
    await expect(openUserMapping(settings, productNames('Engine'))).rejects.toThrow(
      'requestAnalyzerConfig.clientCertificateIdentityField: must be SUBJECT_DN, as ',
    );
  });

  test('the forms in which proxies pass certificates on', () => {
    const { cert, serial, der, other } = forms();
    const escaped = encodeURIComponent(cert);
    const readable = [
      escaped,
      cert.replaceAll('\n', ' '),
      cert.replaceAll('\n', '\t'),
      der,
      `${der},${other}`,
      `:${der}:`,
      `Hash=abc;Cert="${escaped}";Subject="CN=ann, O=x";URI=spiffe://a`,
      `By=spiffe://b;Cert="${encodeURIComponent(other)}",Hash=abc;Subject="a,b";Cert="${escaped}"`,
    ];
    expect(readable.map((value) => certificateInHeader(value)?.serialNumber)).toEqual(readable.map(() => serial));
    const unreadable = ['', 'x', '%', 'Hash=abc;Subject="CN=ann"', 'A'.repeat(100_000), `Cert="${escaped}",Hash=a`];
    expect(unreadable.map(certificateInHeader)).toEqual(unreadable.map(() => null));
  });

  function forms() {
    const one = issued('/CN=ann');
    return {
      cert: one.toString(),
      serial: one.serialNumber,
      der: one.raw.toString('base64'),
      other: issued('/CN=bob').raw.toString('base64'),
    };
  }
});
