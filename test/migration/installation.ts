/** What an installation of the reference gateway consists of: rules, and the requests that its clients send. */

const rule = (name: string, condition: string, group: string, priority?: number): string =>
  [
    '---',
    `name: "${name}"`,
    `description: "${name}"`,
    ...(priority === undefined ? [] : [`priority: ${priority}`]),
    `condition: '${condition}'`,
    'actions:',
    `  - 'result.put("routingGroup", "${group}")'`,
    '',
  ].join('\n');

/** How a configuration reaches a database. */
export interface DatabaseSettings {
  readonly jdbcUrl: string;
  readonly user: string;
  readonly password: string;
}

/** The configuration of a release: what its installation page has, with the rules of a file. */
export const configuration = ({ jdbcUrl, user, password }: DatabaseSettings, port: number, rules: string) => ({
  serverConfig: { 'node.environment': 'test', 'http-server.http.port': port },
  dataStore: {
    jdbcUrl: jdbcUrl.replace('jdbc:mariadb:', 'jdbc:mysql:'),
    user,
    password,
    driver: jdbcUrl.startsWith('jdbc:postgresql:') ? 'org.postgresql.Driver' : 'com.mysql.cj.jdbc.Driver',
    queryHistoryHoursRetention: 24,
    runMigrationsEnabled: true,
  },
  clusterStatsConfiguration: { monitorType: 'INFO_API' },
  monitor: { taskDelay: '1s' },
  routingRules: { rulesEngineEnabled: true, rulesConfigPath: rules },
  requestAnalyzerConfig: { analyzeRequest: true },
});

/** A rules file of ten rules, each with a priority. */
export const rulesFile = [
  rule('airflow', 'request.getHeader("X-Trino-Source") == "airflow"', 'etl', 0),
  rule('dbt', 'request.getHeader("X-Trino-Source") ~= "dbt-[0-9]+"', 'etl', 1),
  rule('etl tag', 'request.getHeader("X-Trino-Client-Tags") contains "label=etl"', 'etl', 2),
  rule('big user', 'trinoRequestUser.userExistsAndEquals("big")', 'large', 3),
  rule('orders', 'trinoQueryProperties.getTables().toString().contains("orders")', 'large', 4),
  rule('catalog', 'trinoQueryProperties.getCatalogs().contains("hive")', 'etl', 5),
  rule('insert', 'trinoQueryProperties.getQueryType().equals("Insert")', 'etl', 6),
  rule(
    'schema',
    'trinoQueryProperties.getDefaultSchema().isPresent() && trinoQueryProperties.getDefaultSchema().get() == "web"',
    'large',
    7,
  ),
  rule('method', 'request.getMethod() == "PUT"', 'large', 8),
  rule(
    'info',
    'request.getHeader("X-Trino-Client-Info") != null && request.getHeader("X-Trino-Client-Info").startsWith("bi")',
    'large',
    9,
  ),
].join('');

/** A request as a client sends it. */
export interface ClientRequest {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const sources = ['airflow', 'dbt-1', 'dbt-x', 'cli', null];
const users = ['ann', 'big'];
const statements = [
  'SELECT 1',
  'SELECT * FROM tpch.tiny.orders',
  'SELECT * FROM hive.web.events e JOIN tpch.tiny.nation n ON e.id = n.nationkey',
  'INSERT INTO memory.default.t SELECT 1',
  'SELECT count(*) FROM orders',
];
const others: readonly Readonly<Record<string, string>>[] = [
  {},
  { 'X-Trino-Client-Tags': 'a,label=etl', 'X-Trino-Client-Info': 'bi-tool' },
];

/** A hundred requests: every combination of source, user, statement and other headers. */
export const clientRequests: readonly ClientRequest[] = sources.flatMap((source) =>
  users.flatMap((user) =>
    statements.flatMap((body) =>
      others.map((more) => ({
        headers: {
          'X-Trino-User': user,
          'X-Trino-Catalog': 'tpch',
          'X-Trino-Schema': body === 'SELECT 1' && source === null ? 'web' : 'tiny',
          ...(source === null ? {} : { 'X-Trino-Source': source }),
          ...more,
        },
        body,
      })),
    ),
  ),
);
