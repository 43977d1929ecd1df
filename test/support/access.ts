import type { AuthenticationSettings } from '../../src/api/auth/openAuthentication.ts';
import { parseConfig } from '../../src/config/loadConfig.ts';
import type { Clock } from '../../src/model/clock.ts';

/** Who may call, from the text of a configuration file. */
export function accessSettings(yaml: string): AuthenticationSettings {
  const result = parseConfig(yaml, {});
  if ('problems' in result) throw new Error(JSON.stringify(result.problems));
  return result.config;
}

/** The time of the system, which a test moves ahead. */
export class TestClock implements Clock {
  ahead = 0;
  now = () => Date.now() + this.ahead;
  monotonic = () => performance.now() + this.ahead;
}
