import { type Static, Type } from 'typebox';
import { type CelRule, cel } from '../../model/cel.ts';
import { durationField } from '../../model/durationField.ts';
import { GatewayClassName } from '../../model/resource.ts';
import {
  closedObject,
  credentialsHostsField,
  optionalChoice,
  optionalFlag,
  optionalInteger,
  optionalText,
  suspendField,
} from '../fields/spec.ts';

export const QUERY_REPLAY = 'QueryReplay';
export const QUERY_REPLAYS = 'queryreplays';

/** Defaults of the fields. */
export const replayDefaults = {
  ...{ last: '24h', perDigest: 3, max: 2_000, concurrency: 2, minCoverage: 80, time: '10m', cpu: '30m' },
  for: '1h',
} as const;

const clusterName = (description: string) => Type.String({ minLength: 1, maxLength: 253, description });
const names = (description: string) =>
  Type.Optional(Type.Array(Type.String({ minLength: 1, maxLength: 256 }), { minItems: 1, maxItems: 64, description }));
const optionalDuration = (name: string, least: string, most: string, description: string) =>
  Type.Optional(durationField(name, { least, most, example: '1h' }, description));
const formed = (form: string, message: string): CelRule<string> => [
  `self.matches(r'${form}')`,
  message,
  (text) => (new RegExp(form).test(text) ? null : ''),
];
const timeOfDay = (field: string) =>
  Type.String({
    ...{ maxLength: 5, description: 'Time of a day, UTC.' },
    ...cel(formed('^([01][0-9]|2[0-3]):[0-5][0-9]$', `${field} must be a time of a day, such as 22:00`)),
  });

const filter = {
  routingGroups: names('Only queries of these routing groups.'),
  users: names('Only queries of these users.'),
  max: optionalInteger(1, 10_000, 'Queries at most.', { default: replayDefaults.max }),
};

/** `spec.from.history`. */
const History = closedObject(
  {
    last: optionalDuration('last', '1m', '720h', `Time before the start; ${replayDefaults.last} by default.`),
    ...filter,
    perDigest: optionalInteger(1, 100, 'Queries of each shape, catalog and schema, the newest first.', {
      default: replayDefaults.perDigest,
    }),
  },
  'Recorded queries.',
);

/** `spec.from.live`. */
const Live = closedObject(
  {
    percent: Type.Integer({ minimum: 1, maximum: 100, description: 'Percent of the reads that are repeated.' }),
    for: optionalDuration('for', '1m', '720h', `Time after which it ends; ${replayDefaults.for} by default.`),
    ...filter,
  },
  'Reads of clients, repeated at the candidate seconds after they ended.',
);

/** `spec.replayAs`. */
const Account = closedObject(
  {
    credentialsSecretRef: Type.Optional(
      closedObject(
        { name: Type.String({ minLength: 1, maxLength: 253, description: 'Name of the Secret.' }) },
        "Secret with username and password, in the resource's namespace.",
      ),
    ),
    credentialsHosts: credentialsHostsField(
      'Hosts that the Secret may be sent to; by default Services of the namespace.',
    ),
    username: optionalText('User name, if there is no Secret.', { minLength: 1, maxLength: 256 }),
    password: optionalText(
      `File with the password, as \${FILE:/path}; only in manifests of the source directory.`,
      { maxLength: 1024 },
      formed('^\\$\\{FILE:[^}]+\\}$', `password must be \${FILE:/path}: a resource holds no password`),
    ),
    impersonate: optionalFlag('True: queries run as their users; the engine must let the account impersonate them.', {
      default: false,
    }),
  },
  'Account of replayed queries: give it the right to read, and no other.',
  [
    'has(self.credentialsSecretRef) != has(self.username)',
    'replayAs must have either credentialsSecretRef or username',
    ({ credentialsSecretRef, username }) =>
      (credentialsSecretRef === undefined) === (username === undefined) ? '' : null,
  ],
);

/** `spec` of a QueryReplay (docs/replay.md). */
export const QueryReplaySpec = closedObject(
  {
    control: clusterName('Name of the cluster with the right results.'),
    candidate: clusterName('Name of the cluster that is verified.'),
    mode: optionalChoice(
      ['Run', 'Validate'],
      'Run: results are compared. Validate: the engines check the statements, and nothing runs.',
      { default: 'Run' },
    ),
    from: closedObject({ history: Type.Optional(History), live: Type.Optional(Live) }, 'Source of the queries.', [
      'has(self.history) != has(self.live)',
      'from must have either history or live',
      ({ history, live }) => ((history === undefined) === (live === undefined) ? '' : null),
    ]),
    replayAs: Account,
    excludeCatalogs: names('Catalogs: queries that read them are not replayed.'),
    limits: Type.Optional(
      closedObject(
        {
          concurrency: optionalInteger(1, 32, 'Queries at a time, on each of both clusters.', {
            default: replayDefaults.concurrency,
          }),
          time: optionalDuration('time', '1s', '24h', `Time of a query; ${replayDefaults.time} by default.`),
          cpu: optionalDuration('cpu', '1s', '240h', `CPU time of a query; ${replayDefaults.cpu} by default.`),
        },
        'Bounds.',
      ),
    ),
    minCoverage: optionalInteger(
      ...([0, 100, 'Percent of the CPU time of recorded queries that compared ones must stand for.'] as const),
      { default: replayDefaults.minCoverage },
    ),
    window: Type.Optional(
      closedObject(
        { from: timeOfDay('from'), to: timeOfDay('to') },
        'Part of each day in which queries are sent; a replay continues in the next window.',
      ),
    ),
    every: optionalDuration('every', '1h', '720h', 'Time from one start to the next; by default it runs once.'),
    suspend: suspendField('While true, queries are selected and their cost is shown, but nothing is sent.'),
    gatewayClassName: Type.Optional(GatewayClassName),
  },
  'Replays recorded queries on two clusters and compares results.',
  [
    'self.control != self.candidate',
    'candidate must be another cluster than control',
    ({ control, candidate }) => (control === candidate ? 'candidate' : null),
  ],
);
export type QueryReplaySpec = Static<typeof QueryReplaySpec>;
