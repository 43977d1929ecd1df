import type { OidcServer } from '../../support/oidcProvider.ts';
import type { Window } from './browser.ts';

/** Logs in by name and password; the password is the name unless it is given. */
export async function logIn({ page }: Window, name: string, password = name): Promise<void> {
  await page.getByRole('textbox', { name: 'Name' }).fill(name);
  await page.getByLabel('Password', { exact: true }).fill(password);
  await page.keyboard.press('Enter');
}

/** Logs in by a token of the Kubernetes cluster. */
export async function logInByToken({ page }: Window, token: string): Promise<void> {
  await page.getByRole('textbox', { name: 'Token' }).fill(token);
  await page.getByRole('button', { name: 'Log in' }).click();
}

/** Logs in at an OpenID provider to which the browser was led. */
export async function logInAt({ page }: Window, provider: OidcServer, user: string): Promise<void> {
  await page.waitForURL(`${provider.issuer}/**`);
  await page.locator('input[name=login]').fill(user);
  await page.locator('input[name=password]').fill('any');
  await page.locator('button[type=submit]').click();
  await page.getByRole('button', { name: 'Continue' }).click();
}
