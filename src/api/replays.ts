import { type Static, Type } from 'typebox';
import { queryReplay } from '../kinds/queryReplay/kind.ts';
import { QUERY_REPLAY, QueryReplaySpec } from '../kinds/queryReplay/spec.ts';
import type { InventoryReplay, ReplayRegistry } from '../operator/registry/replayRegistry.ts';
import { coverageOf, type ReplayResult, replayStates } from '../replay/replayJobs.ts';
import { digestVerdicts, junitReport, markdownReport, type ReportHead } from '../replay/replayReport.ts';
import { verdictKinds } from '../replay/verdict.ts';
import type { StoreContext } from './apiContext.ts';
import { declared, declaredRoutes, LimitInPath, Spec } from './limits.ts';
import { notFound, ofNamespace, routes } from './routes.ts';
import { nullable, oneOf, type ResponseBody, reference, textField } from './schemas.ts';
import { Version } from './writes.ts';

const count = Type.Integer({ minimum: 0 });
const share = (description: string) =>
  Type.Object({ queries: Type.Number(), cpuMillis: Type.Number() }, { description });

const Progress = Type.Object(
  {
    state: oneOf(replayStates),
    message: textField('Reason that it waits, is held or failed, or its conclusion.'),
    started: textField('Time at which it started.'),
    selected: share('Queries that are replayed, and the CPU time that they took: the expected cost on each cluster.'),
    replayed: share('Replayed queries, and their CPU time on both clusters.'),
    recorded: share('Recorded queries of the range.'),
    coverage: Type.Object(
      { queries: count, cpu: count },
      { description: 'Percent of the recorded queries, and of their CPU time, that compared ones stand for.' },
    ),
    excluded: Type.Record(Type.String(), share(''), { description: 'Queries that are not replayed, by reason.' }),
    verdicts: Type.Record(Type.String(), count, { description: 'Queries by verdict.' }),
    verified: nullable(Type.Boolean(), 'Null until it has ended.'),
  },
  { description: 'Progress.' },
);

export const ReplayState = Type.Object(
  {
    namespace: Type.String(),
    name: Type.String(),
    spec: Spec,
    ...declared,
    progress: nullable(Progress, 'Null until it begins.'),
  },
  { $id: 'ReplayState', description: 'A replay of recorded queries on two clusters.' },
);
export type ReplayState = ResponseBody<typeof ReplayState>;

export const QueryReplayReport = Type.Object(
  {
    replay: reference(ReplayState),
    digests: Type.Array(
      Type.Object({
        digest: textField('Digest of the shape.'),
        verdict: oneOf(verdictKinds),
        reason: textField('Reason of the verdict.'),
        queries: Type.Integer({ minimum: 0, description: 'Replayed queries of the shape.' }),
        controlCpuMillis: Type.Integer(),
        candidateCpuMillis: Type.Integer(),
        example: Type.Object({
          queryId: textField('Recorded query.'),
          controlQuery: nullable(Type.String(), 'Its replay on the control.'),
          candidateQuery: nullable(Type.String(), 'Its replay on the candidate.'),
          controlError: nullable(Type.String(), 'Error on the control.'),
          candidateError: nullable(Type.String(), 'Error on the candidate.'),
          user: nullable(Type.String(), 'User of the recorded query.'),
        }),
      }),
    ),
  },
  { $id: 'QueryReplayReport', description: 'Verdicts of a replay by shape, the worst first.' },
);
export type QueryReplayReport = ResponseBody<typeof QueryReplayReport>;

const { gatewayClassName: _class, ...replayFields } = QueryReplaySpec.properties;
const ReplayUpdate = Type.Object(
  { ...replayFields, ...Version },
  {
    $id: 'ReplayUpdate',
    additionalProperties: false,
    description: 'A replay as a whole: what is absent has its default.',
  },
);
const ReportQuery = Type.Object({
  format: Type.Optional(oneOf(['json', 'junit', 'markdown'], 'json when absent.')),
});
type ReplayInPath = Static<typeof LimitInPath>;

/** Replays of recorded queries, and their reports (docs/rest-api.md#replays). */
export function replayRoutes(api: StoreContext, replays: ReplayRegistry): void {
  const unknown = ({ namespace, name }: ReplayInPath) => `there is no replay ${namespace}/${name}`;
  const nameOf = ({ namespace, name }: ReplayInPath) => `${namespace}/${name}`;
  declaredRoutes<typeof LimitInPath, ReplayState, QueryReplaySpec>(api, {
    ...{ tag: 'replays', path: '/api/replays', params: LimitInPath, kind: QUERY_REPLAY },
    ...{ update: ReplayUpdate, State: ReplayState, Details: ReplayState },
    ...{ what: 'replay', order: 'By namespace and name.', unknown, nameOf, keyOf: nameOf },
    texts: {
      list: ['All replays, with their progress'],
      one: ['A replay, with its progress'],
      put: ['Declares a replay; it begins again if what it replays changes'],
      delete: ['Deletes a replay and its results'],
    },
    list: () => replays.list().map(replayState),
    find: ({ namespace, name }) => {
      const replay = replays.find(namespace, name);
      return replay === null ? null : replayState(replay);
    },
    details: (state) => state,
    problems: (spec) => queryReplay.specProblems(spec),
    put: ({ namespace, name }, spec, context) => replays.put(namespace, name, spec, context),
    delete: ({ namespace, name }, version) => replays.delete(namespace, name, version),
  });
  routes(api, 'replays')('GET', '/api/replays/:namespace/:name/report', {
    summary: 'Verdicts of a replay by shape, as JSON, JUnit or Markdown',
    params: LimitInPath,
    query: ReportQuery,
    returns: ['The report.', QueryReplayReport],
    errors: [404, 503],
    options: ofNamespace,
    handle: async ({ params, query: { format = 'json' }, reply }) => {
      const replay = replays.find(params.namespace, params.name);
      if (replay === null) throw notFound(unknown(params), 'name');
      const results = await api.store.replays.results(replay.uid);
      const digests = digestVerdicts(results.map((text): ReplayResult => JSON.parse(text)));
      const state = replayState(replay);
      if (format === 'json') return { replay: state, digests };
      const head = reportHead(state);
      if (format === 'junit') return reply.type('application/xml; charset=utf-8').send(junitReport(head, digests));
      return reply.type('text/markdown; charset=utf-8').send(markdownReport(head, digests));
    },
  });
}

/** The head of a report. */
export function reportHead({ namespace, name, spec, progress }: ReplayState): ReportHead {
  const { control, candidate } = spec as unknown as QueryReplaySpec;
  const { verified = null, message = 'the replay has not begun', replayed, selected } = progress ?? {};
  const counts = `${replayed?.queries ?? 0} of ${selected?.queries ?? 0} queries`;
  return { name: `${namespace}/${name}`, control, candidate, verified, message: `${counts}; ${message}` };
}

function replayState({ uid: _uid, progress, ...replay }: InventoryReplay): ReplayState {
  if (progress === null) return { ...replay, progress };
  const { started, revision: _revision, covered: _covered, until: _until, ...others } = progress;
  const coverage = coverageOf(progress);
  return { ...replay, progress: { ...others, started: new Date(started).toISOString(), coverage } } as ReplayState;
}
