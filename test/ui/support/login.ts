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
