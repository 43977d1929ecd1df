import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { faketimeEnvironment, hasFaketime } from '../support/faketime.ts';
import { freePort } from '../support/freePort.ts';
import { ldapAvailable, startLdapServer } from '../support/ldapServer.ts';
import { type OidcServer, startOidcProvider } from '../support/oidcProvider.ts';
import { canBrowse, openWindow } from './support/browser.ts';
import { logIn, logInAt } from './support/login.ts';
import { formAccess, type Rig, startRig } from './support/rig.ts';
import { expectSound, expectSoundInBothSchemes } from './support/soundness.ts';

describe.skipIf(!canBrowse)('logging in by name and password', () => {
  let rig: Rig;
  beforeAll(async () => {
    rig = await startRig({
      ...formAccess(),
      pagePermissions: { user: 'dashboard_history' },
      uiConfiguration: { disablePages: ['resource-group'] },
    });
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test('leads to the page that was asked for, with the session out of scripts’ reach', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page, context } = window;
    await page.getByRole('button', { name: 'Log in' }).waitFor();
    await expectSoundInBothSchemes(window);
    await page.keyboard.press('Enter');
    await page.getByText('Enter your password.').waitFor();
    await expectSoundInBothSchemes(window);
    await logIn(window, 'ada', 'wrong');
    await expect.poll(() => page.getByRole('alert').textContent()).toMatch('Authentication failed.');
    await expectSoundInBothSchemes(window);
    await logIn(window, 'ada');
    await page.getByRole('heading', { level: 1, name: 'Active Backends' }).waitFor();
    const session = (await context.cookies()).find(({ name }) => name.endsWith('-Session'));
    expect([session?.httpOnly, session?.sameSite]).toEqual([true, 'Strict']);
    expect(await page.evaluate('JSON.stringify([document.cookie, localStorage, sessionStorage])')).not.toContain(
      session?.value,
    );
    // A write by cookie: it needs the header with the session's token.
    await page.getByRole('switch', { name: 'etl-1 takes new queries' }).press('Space');
    await page.getByRole('button', { name: 'Switch off' }).click();
    await page.getByText('etl-1 takes no new queries').waitFor();
    await page.getByRole('switch', { name: 'etl-1 takes new queries' }).press('Space');
    await page.getByText('etl-1 takes new queries.').waitFor();
    await page.getByText('on by ada').or(page.getByText('off by ada')).first().waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'User ada' }).click();
    await page.getByText('Roles: ADMIN, USER, API').waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.getByRole('button', { name: 'Log in' }).waitFor();
    expect(await page.getByText('Your session has ended').count()).toBe(0);
    expect(window.defects).toEqual([]);
  });

  test('a session that ends elsewhere leads to the login page and back to where the user was', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page, context } = window;
    await logIn(window, 'ada');
    await page.getByRole('link', { name: 'adhoc-1', exact: true }).waitFor();
    const cookies = (await context.cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
    const ended = await fetch(`${rig.gateway.url}/logout`, { method: 'POST', headers: { Cookie: cookies } });
    expect(ended.status).toBe(200);
    await page.getByText('Your session has ended.').waitFor();
    await expectSound(window);
    await logIn(window, 'ada');
    await page.getByRole('link', { name: 'adhoc-1', exact: true }).waitFor();
  });

  test('a user sees the pages of pagePermissions, and the history of the own queries', async () => {
    await using window = await openWindow(rig.pages);
    const { page } = window;
    await logIn(window, 'ursula');
    const links = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
    await expect.poll(() => links.allTextContents()).toEqual(['Dashboard', 'Query History']);
    await links.nth(1).click();
    await page.getByText('No query has run yet').waitFor();
    expect(await page.getByRole('search').getByRole('textbox', { name: 'User' }).inputValue()).toBe('ursula');
    await expectSound(window);
    await page.goto(`${rig.pages}/clusters`);
    await page.getByRole('heading', { level: 1, name: 'No such page' }).waitFor();
    await expectSound(window);
  });

  test('a role that was taken away meanwhile: what is done then is refused, and the pages follow', async () => {
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    await logIn(window, 'ada');
    const toggle = page.getByRole('switch', { name: 'adhoc-1 takes new queries' });
    await toggle.waitFor();
    const { presetUsers } = formAccess() as { presetUsers: Record<string, object> };
    await rig.stopGateway();
    await page.getByText('Shown as last known').waitFor();
    // Neither the session nor the page notices before something is done.
    await rig.configure({ presetUsers: { ...presetUsers, ada: { password: 'ada', privileges: 'USER' } } });
    await toggle.press('Space');
    await expect
      .poll(() => page.getByRole('alert').first().textContent())
      .toMatch(/"ada" lacks the role ADMIN, which this call needs/);
    const links = page.getByRole('navigation', { name: 'Pages' }).getByRole('link');
    await expect.poll(() => links.allTextContents()).toEqual(['Dashboard', 'Query History']);
    await page.getByRole('heading', { level: 1, name: 'No such page' }).waitFor();
    await expectSound(window);
    await rig.configure({ presetUsers });
  });

  test('a user without any role sees a message about it', async () => {
    await using window = await openWindow(rig.pages);
    await logIn(window, 'nobody');
    await expect.poll(() => window.page.getByRole('alert').first().textContent()).toMatch(/lacks the role/);
    await expectSound(window);
  });
});

describe.skipIf(!canBrowse || !hasFaketime())('the time of a session', () => {
  test('runs out: the login page says so, and leads back', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'session-'));
    const offset = join(folder, 'offset');
    try {
      await writeFile(offset, '+0');
      await using rig = await startRig(formAccess(), null, faketimeEnvironment(offset));
      await using window = await openWindow(`${rig.pages}/clusters`);
      const { page } = window;
      await logIn(window, 'ada');
      await page.getByRole('link', { name: 'adhoc-1', exact: true }).waitFor();
      // A minute after twelve hours, which sessions last unless configured otherwise.
      await writeFile(offset, `+${12 * 3600 + 60}`);
      await page.getByText('Your session has ended.').waitFor();
      await expectSound(window);
      await logIn(window, 'ada');
      await page.getByRole('link', { name: 'adhoc-1', exact: true }).waitFor();
      expect(await page.getByText('Your session has ended.').count()).toBe(0);
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });
});

describe.skipIf(!canBrowse)('reading opened to users', () => {
  let rig: Rig;
  beforeAll(async () => {
    const access = formAccess();
    const authorization = { ...(access.authorization as object), webappReadRole: 'USER' };
    rig = await startRig({ ...access, authorization });
  });
  afterAll(async () => await rig?.[Symbol.asyncDispose]());

  test('a user sees the backends without what changes them, and the own queries only', async () => {
    for (const user of ['ursula', 'somebody']) {
      const headers = { 'X-Engine-User': user };
      await fetch(`${rig.gateway.url}/v1/statement`, { method: 'POST', headers, body: `SELECT '${user}'` });
    }
    await using window = await openWindow(`${rig.pages}/clusters`);
    const { page } = window;
    await logIn(window, 'ursula');
    await page.getByRole('link', { name: 'adhoc-1', exact: true }).waitFor();
    expect(await page.getByRole('button', { name: /^(Add|Edit|Delete)/ }).count()).toBe(0);
    expect(await page.getByRole('switch', { name: 'adhoc-1 takes new queries' }).isDisabled()).toBe(true);
    await expectSound(window);
    await page.getByRole('link', { name: 'Query History' }).click();
    await page.getByText('1 query', { exact: true }).waitFor();
    expect(await page.getByRole('search').getByRole('textbox', { name: 'User' }).inputValue()).toBe('ursula');
    await expectSound(window);
  });
});

/** Entries of an LDAP server. */
const people = `dn: ou=people,dc=example,dc=com
objectClass: organizationalUnit
ou: people

dn: uid=lise,ou=people,dc=example,dc=com
objectClass: inetOrgPerson
uid: lise
cn: lise
sn: lise
userPassword: lise-secret
`;

describe.skipIf(!canBrowse)('logging in elsewhere', () => {
  test('by an OpenID provider', async () => {
    const port = await freePort();
    const provider = await startOidcProvider(`http://127.0.0.1:${port}/oidc/callback`);
    try {
      await using rig = await startRig({
        serverConfig: { 'http-server.http.port': port },
        authentication: {
          oauth: {
            issuer: provider.issuer,
            clientId: provider.clientId,
            clientSecret: provider.clientSecret,
            redirectUrl: `http://127.0.0.1:${port}/oidc/callback`,
            redirectWebUrl: '/engine-gateway/clusters',
            scopes: ['openid'],
            privilegesField: 'groups',
          },
        },
        authorization: { admin: '.*ADMIN.*', user: '.*USER.*', api: '.*API.*' },
      });
      await using window = await openWindow(rig.pages);
      const { page } = window;
      await page.getByText("at your organisation's identity provider").waitFor();
      await expectSound(window);
      await page.getByRole('button', { name: 'Log in' }).click();
      await logInAt(window, provider, 'grace');
      await page.waitForURL(`${rig.pages}/clusters`);
      await page.getByRole('link', { name: 'adhoc-1', exact: true }).waitFor();
      await page.getByRole('button', { name: 'User grace' }).waitFor();
    } finally {
      await provider.close();
    }
  });

  test('in several ways, all on one page: by LDAP and at two providers', { skip: !ldapAvailable }, async () => {
    const port = await freePort();
    const base = `http://127.0.0.1:${port}`;
    await using parts = new AsyncDisposableStack();
    const started = <T extends { close(): Promise<void> }>(server: T): T => parts.adopt(server, (each) => each.close());
    const own = started(await startOidcProvider(`${base}/oidc/callback`));
    const partners = started(
      await startOidcProvider(`${base}/oidc/callback/partners`, 'gateway', {
        groups: { grace: ['ADMIN', 'USER'] },
        logoutRedirectUri: `${base}/engine-gateway`,
      }),
    );
    const ldap = parts.adopt(await startLdapServer(people), (server) => server.stop());
    const folder = parts.adopt(await mkdtemp(join(tmpdir(), 'logins-')), (path) =>
      rm(path, { recursive: true, force: true }),
    );
    const ldapConfigPath = join(folder, 'ldap.yaml');
    const pattern = 'uid=${USER},ou=people,dc=example,dc=com';
    await writeFile(ldapConfigPath, `ldapHost: 127.0.0.1\nldapPort: ${ldap.port}\nldapUserDnPattern: ${pattern}\n`);
    const client = ({ issuer, clientId, clientSecret }: OidcServer) => ({
      ...{ issuer, clientId, clientSecret, redirectWebUrl: '/engine-gateway', scopes: ['openid'] },
      privilegesField: 'groups',
    });
    const access = formAccess();
    const { form } = access.authentication as { form: object };
    await using rig = await startRig({
      ...access,
      serverConfig: { 'http-server.http.port': port },
      authentication: {
        form: { ...form, ldapConfigPath },
        oauth: { ...client(own), label: 'Example Corp', redirectUrl: `${base}/oidc/callback` },
        providers: {
          partners: {
            ...{ ...client(partners), label: 'Partners', redirectUrl: `${base}/oidc/callback/partners` },
            logoutRedirectUrl: `${base}/engine-gateway`,
            roles: { user: '.*USER.*' },
          },
        },
      },
      presetUsers: { lise: { privileges: 'ADMIN_USER' } },
    });
    await using window = await openWindow(rig.pages);
    const { page } = window;
    const buttons = page.getByRole('main').getByRole('button', { name: 'Log in' });
    const ways = ['Log in', 'Log in with Example Corp', 'Log in with Partners'];
    await expect.poll(() => buttons.allTextContents()).toEqual(ways);
    await expectSound(window);

    await logIn(window, 'lise', 'wrong');
    await expect.poll(() => page.getByRole('alert').textContent()).toMatch('Authentication failed.');
    await logIn(window, 'lise', 'lise-secret');
    await page.getByRole('button', { name: 'User lise' }).click();
    await page.getByText('Roles: ADMIN, USER').waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();

    await page.getByRole('button', { name: 'Log in with Example Corp' }).click();
    await logInAt(window, own, 'grace');
    await page.getByRole('button', { name: 'User grace' }).click();
    await page.getByText('Roles: ADMIN, USER, API').waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();

    // Whatever their provider says: the partners have the roles that are configured for them.
    await page.getByRole('button', { name: 'Log in with Partners' }).click();
    await logInAt(window, partners, 'grace');
    await page.getByRole('button', { name: 'User partners/grace' }).click();
    await page.getByText('Roles: USER').waitFor();
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.waitForURL(`${partners.issuer}/session/end?**`);
    await page.getByRole('button', { name: 'Yes, sign me out' }).click();
    await page.waitForURL(rig.pages);
    await expect.poll(() => buttons.allTextContents()).toEqual(ways);
  });
});
