/** Keys of older documents and releases of the reference that it rejects itself, and what to write instead. */
export const retiredKeys: ReadonlyMap<string, string> = new Map([
  ['monitor.connectTimeoutSeconds', 'write monitor.timeout, e.g. 10s'],
  ['monitor.requestTimeoutSeconds', 'write monitor.timeout, e.g. 10s'],
  ['monitor.idleTimeoutSeconds', 'write monitor.timeout, e.g. 10s'],
  ['monitor.taskDelaySeconds', 'write monitor.taskDelay, e.g. 1m'],
  ['dataStore.queryHistoryHours', 'write dataStore.queryHistoryHoursRetention'],
  ['httpConnectionPool', 'write serverConfig "proxy.http-client.max-connections-per-server" and its siblings'],
  ['requestRouter', 'write serverConfig "http-server.http.port"'],
  ['server.applicationConnectors', 'write serverConfig "http-server.http.port"'],
  ['server.adminConnectors', 'write server.adminPort'],
  ['clusterStatsConfiguration.useApi', 'write clusterStatsConfiguration.monitorType, e.g. UI_API or INFO_API'],
  ['cookiePaths', 'write gatewayCookieConfiguration and oauth2GatewayCookieConfiguration'],
  ['notifier', 'there are no notifications; watch /metrics'],
]);
