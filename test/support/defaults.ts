import { pino } from 'pino';
import { Registry } from 'prom-client';
import { serverLimits } from '../../src/cli/listeners.ts';
import { dataPlaneSettings, deletionGuard, historySettings } from '../../src/cli/settings.ts';
import type { GatewayConfig } from '../../src/config/gatewayConfig.ts';
import { httpClientSettings } from '../../src/config/httpClient.ts';
import { parseConfig } from '../../src/config/loadConfig.ts';
import { RequestBodies } from '../../src/gateway/bodies/requestBodies.ts';
import type { DataPlaneDependencies, DataPlaneOptions } from '../../src/gateway/dataPlane.ts';
import { defaultStickinessOptions } from '../../src/gateway/ownership/stickiness.ts';
import type { ProxiedRequest, RequestAnalyzer } from '../../src/gateway/proxiedRequest.ts';
import { OpenRequests } from '../../src/gateway/server/gatewayServer.ts';
import { Http2Connections } from '../../src/gateway/server/http2Connections.ts';
import { OverloadManager } from '../../src/gateway/server/overloadManager.ts';
import { ClusterTls } from '../../src/gateway/tls/clusterTls.ts';
import type { TlsMaterial } from '../../src/gateway/tls/tlsFiles.ts';
import { systemClock } from '../../src/model/clock.ts';
import type { ProductNames } from '../../src/model/names.ts';
import { noUser, type RequestUser } from '../../src/model/requestUser.ts';

/** The configuration of a gateway without a configuration file. */
function readDefaults(): GatewayConfig {
  const loaded = parseConfig('', {});
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems));
  return loaded.config;
}

export const defaultConfig = readDefaults();
const config = defaultConfig;

const noMaterial: TlsMaterial = { context: {}, chain: [] };

/** Settings of the parts that tests make, as the configuration has them by default. */
export const defaultDataPlaneSettings = dataPlaneSettings(config);
export const defaultHistorySettings = historySettings(config);
/** `server.maxApiBodySize`. */
export const defaultApiBodyLimit = config.server.maxApiBodySize;
/** Settings of the connections to clusters. */
export const defaultUpstream = { ...httpClientSettings(config, 'proxy'), maxHeaderSize: 65_536 };
export const defaultDeletionGuard = deletionGuard(config);

/** TLS toward servers without files and settings of their own: certificates are verified as Node.js does. */
export const verifyingTls = new ClusterTls({ current: noMaterial }, true, () => null, null, pino({ level: 'silent' }));

/** Bodies of requests without a limit. */
export function unlimitedBodies(): RequestBodies {
  return new RequestBodies(Number.POSITIVE_INFINITY, new Registry());
}

/** HTTP/2 for every client that asks for it. */
export function unlimitedHttp2(): Http2Connections {
  return new Http2Connections(Number.POSITIVE_INFINITY, systemClock, pino({ level: 'silent' }), new Registry());
}

/** What a server of clients is made of beside data plane and API, with nothing switched on. */
export function defaultServerOptions() {
  return {
    ...serverLimits(config),
    hostCheck: null,
    origins: null,
    openRequests: new OpenRequests(),
    overload: new OverloadManager(() => 0, { count: 0 }, systemClock, pino({ level: 'silent' }), new Registry()),
    http2Connections: unlimitedHttp2(),
  };
}

/** What does not change while a data plane runs, with nothing switched on. */
export const defaultDataPlaneOptions = {
  additionalStatementPaths: [],
  extraWhitelistPaths: [],
  trustPeer: () => false,
  ownCookies: [],
  handshakeCookies: null,
  enginePages: 'proxy',
  certificateHeader: null,
  certificates: null,
  stickiness: defaultStickinessOptions,
} as const satisfies Partial<DataPlaneOptions>;

/** Takes no note of which queries clients follow. */
export const unwatchedQueries: DataPlaneDependencies['runningQueries'] = {
  noteActivity: () => undefined,
  noteEnd: () => undefined,
};

/** Takes no note of how queries end. */
export const unwatchedOutcomes: DataPlaneDependencies['outcomes'] = {
  begin: () => undefined,
  page: () => undefined,
  awaitsRows: () => false,
  end: () => undefined,
  cancel: () => undefined,
  lose: () => undefined,
  retry: () => undefined,
  reject: () => undefined,
};

/** Takes the user from the product's user header and analyses nothing. */
export function headerUserAnalyzer(names: ProductNames): RequestAnalyzer {
  const key = names.headerKey('User');
  const user = ({ fields }: Pick<ProxiedRequest, 'fields'>): RequestUser => {
    const value = fields.get(key)?.[0];
    return value === undefined ? noUser : { user: value, userInfo: null };
  };
  return { user, analyze: (proxied) => ({ user: user(proxied), queryProperties: null }) };
}
