import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Where manifests and chart mount Secrets. */
const MOUNT = '/etc/engine-gateway-secrets';

/** Texts of the Secrets that the base mounts. */
export const baseSecrets = {
  'database/user': 'gateway',
  'database/password': 'database secret',
  'session/secret': 'a secret that all replicas have in common',
};

/** Writes Secrets below a folder as a pod mounts them; returns a function that has a configuration read them there. */
export function mountSecrets(
  folder: string,
  secrets: Readonly<Record<string, string>> = baseSecrets,
): (config: string) => string {
  for (const [path, text] of Object.entries(secrets)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return (config) => config.replaceAll(MOUNT, folder);
}
