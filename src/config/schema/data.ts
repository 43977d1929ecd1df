import { choice, duration, each, flag, integer, listOf, mapOf, secretText, section, size, text } from '../fields.ts';

/** `dataStore`: the database (docs/database.md). */
export const dataStore = section('The database that holds the registry, the query history and the resource groups.', {
  jdbcUrl: text('Database: `jdbc:postgresql://…`, `jdbc:mysql://…`, `jdbc:mariadb://…` or `jdbc:sqlite:FILE`.', {
    default: 'jdbc:sqlite:data/gateway.db',
    format: 'jdbcUrl',
  }),
  user: text('User of the database.'),
  password: secretText('Password of that user.'),
  driver: text('Class of a database driver.', { withoutEffect: 'the driver follows from jdbcUrl' }),
  queryHistoryEnabled: flag('Whether queries are written to the history.', { default: true }),
  queryHistoryHoursRetention: integer(
    'Hours after which queries of the history and their outcomes are deleted, within two hours; 0 or less: all of them then. 720 are 30 days; Trino Gateway keeps 4 hours where the key is left out.',
    { default: 720, range: [-1_000_000, 1_000_000] },
  ),
  runMigrationsEnabled: flag('Whether missing tables and columns are made at start.', { default: true }),
  maxConnections: integer('Connections of this replica to a database server at most; SQLite has one.', {
    default: 10,
    range: [2, 1000],
  }),
});

const inMemory = 'routing reads its table from memory, whatever the database does';

/** `databaseCache`: accepted as the reference's keys are, without effect. */
export const databaseCache = section(
  'Cache of the cluster list in front of the database.',
  {
    enabled: flag('Cache of the cluster list.', { default: false }),
    expireAfterWrite: duration('Age at which it is dropped.', { default: 3_600_000 }),
    refreshAfterWrite: duration('Age at which it is read again.', { default: 5000 }),
  },
  { withoutEffect: inMemory },
);

/** `queryHistory`: how queries are written to the history (docs/database.md#query-history). */
export const queryHistory = section('How queries get into the history, off the path of requests.', {
  maxTextSize: size('Longest query text that is kept; more is cut.', {
    default: 1024 ** 2,
    range: [0, 64 * 1024 ** 2],
  }),
  redact: listOf(
    'Regular expressions; what they match in a query text is replaced by `***` before it is kept.',
    each('regex'),
  ),
  bufferSize: integer('Queries held in memory while the database is unavailable or slow; more go to spillDirectory.', {
    default: 10_000,
    range: [1, 10_000_000],
  }),
  writeBeforeAnswer: flag(
    'Whether a query is in the history before its client gets the first answer, for at most 2 s: for a Trino Gateway on the same database that gets follow-ups of queries begun here.',
    { default: false },
  ),
  spillDirectory: text('Directory for the history that does not fit into the buffer.', {
    default: 'data/history-spill',
    format: 'path',
  }),
  flushInterval: duration('Longest time a query waits before it is written; what a killed process may lose.', {
    default: 200,
    range: [1, 60_000],
  }),
});

/** `queryEvents`: events of clusters about queries (docs/query-events.md). */
export const queryEvents = section('Events of the HTTP event listeners of clusters, which report queries that ended.', {
  secrets: mapOf(
    'Secrets of at least 32 characters by the name of the cluster that sends its own; `*`: of all clusters without their own. None: no events are taken.',
    secretText('Secret.', { required: true }),
  ),
});

/** `audit`: who changed what (docs/authentication.md#audit). */
export const audit = section('How much of the audit is kept in the database.', {
  retention: duration('Age after which entries of the audit are deleted, within two hours.', {
    default: 365 * 86_400_000,
    range: [60_000, 3_650 * 86_400_000],
  }),
  maxEntries: integer(
    'Most entries of the audit that are kept; beyond that the oldest are deleted, within a thousand entries.',
    { default: 100_000, range: [100, 10_000_000] },
  ),
});

/** `admission`: limits on queries (docs/limits.md). */
export const admission = section('Limits on queries that run.', {
  onDatabaseUnavailable: choice(
    'What becomes of queries that limits are about while the database that counts them is unavailable: with `admit` each replica counts its own in addition to what ran before, and sends on what waits for longer than `queue.hold`; `reject` rejects them.',
    ['admit', 'reject'],
    { default: 'admit' },
  ),
  secret: text(
    'Secret of at least 32 characters that encrypts queries which wait in the database, the same on all replicas. Unset, the key derives from that of [sessions](authentication.md#sessions), else from the password of the database; with SQLite it is a file next to the database.',
    { secret: true },
  ),
  previousSecrets: listOf(
    'Earlier or next values of `secret`: what they encrypted can be read, nothing new is encrypted with them.',
    text('Secret of at least 32 characters; an empty one is ignored.', { secret: true, required: true }),
  ),
});

/** `resourceGroups`: the resource group API (docs/rest-api.md#resource-groups-selectors-global-properties). */
export const resourceGroups = section('The REST API of resource groups, selectors and global properties.', {
  enabled: flag('Whether resource groups, selectors and global properties are served.', { default: true }),
  allowedSchemas: listOf(
    'Databases that the query parameter `useSchema` may name; unset allows all but system databases.',
    each('databaseName'),
    { default: null },
  ),
});
