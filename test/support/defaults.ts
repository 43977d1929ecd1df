import type { IncomingMessage } from 'node:http';
import { serverLimits } from '../../src/cli/listeners.ts';
import { dataPlaneSettings, historySettings } from '../../src/cli/settings.ts';
import type { GatewayConfig } from '../../src/config/gatewayConfig.ts';
import { parseConfig } from '../../src/config/loadConfig.ts';
import type { RequestAnalyzer } from '../../src/gateway/analysis/requestAnalyzer.ts';
import type { ProductNames } from '../../src/model/names.ts';
import { firstHeader } from '../../src/model/rawHeaders.ts';
import { noUser, type RequestUser } from '../../src/model/requestUser.ts';

/** The configuration of a gateway without a configuration file. */
function defaultConfig(): GatewayConfig {
  const loaded = parseConfig('', {});
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems));
  return loaded.config;
}

const config = defaultConfig();

/** Settings of the parts that tests make, as the configuration has them by default. */
export const defaultDataPlaneSettings = dataPlaneSettings(config);
export const defaultServerLimits = serverLimits(config);
export const defaultHistorySettings = historySettings(config);

/** Takes the user from the product's user header and analyses nothing. */
export function headerUserAnalyzer(names: ProductNames): RequestAnalyzer {
  const key = names.headerKey('User');
  const user = (request: IncomingMessage): RequestUser => {
    const value = firstHeader(request.rawHeaders, key);
    return value === undefined ? noUser : { user: value, userInfo: null };
  };
  return { user, analyze: (request) => ({ user: user(request), queryProperties: null }) };
}
