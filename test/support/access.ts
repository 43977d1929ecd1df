import type { AuthenticationSettings } from '../../src/api/auth/openAuthentication.ts';
import { parseConfig } from '../../src/config/loadConfig.ts';

/** Who may call, from the text of a configuration file. */
export function accessSettings(yaml: string): AuthenticationSettings {
  const result = parseConfig(yaml, {});
  if ('problems' in result) throw new Error(JSON.stringify(result.problems));
  return result.config;
}
