import { type Static, Type } from 'typebox';
import { engineRollout } from '../kinds/engineRollout/kind.ts';
import { ENGINE_ROLLOUT, EngineRolloutSpec } from '../kinds/engineRollout/spec.ts';
import type { InventoryRollout, RolloutRegistry } from '../operator/registry/rolloutRegistry.ts';
import { rolloutActions, rolloutPhases } from '../rollout/rolloutState.ts';
import type { ApiContext } from './apiContext.ts';
import { writerOf } from './auth/guard.ts';
import { declared, declaredRoutes, LimitInPath, Spec } from './limits.ts';
import { notFound, ofNamespace, routes } from './routes.ts';
import { nullable, oneOf, type ResponseBody, reference, textField } from './schemas.ts';
import { Version } from './writes.ts';

const count = Type.Integer({ minimum: 0 });
const ended = Type.Object({ stable: count, candidate: count }, { description: 'Queries that have ended.' });
const side = Type.Object(
  { starts: count, events: count },
  { description: 'Queries that count, and failures or slow ones.' },
);
const criterion = (what: string) =>
  Type.Object(
    {
      evidence: Type.Number({ description: 'Logarithm of the likelihood ratio.' }),
      threshold: Type.Number({ description: 'Evidence at which the candidate fails.' }),
      ...{ candidate: side, stable: side },
    },
    { description: what },
  );

const StepVerdict = Type.Object(
  {
    verdict: oneOf(['Pass', 'Fail', 'Inconclusive'], 'Inconclusive: more queries are needed.'),
    reason: textField('CamelCase word for programs.'),
    message: textField('Sentence for users, with the numbers.'),
    ...{ ended, errors: criterion('Failed queries.'), time: criterion('Slow queries.') },
    digests: Type.Array(
      Type.Object({
        digest: textField('Digest of the shape.'),
        criterion: oneOf(['errors', 'time'], 'What is more frequent on the candidate.'),
        ...{ evidence: Type.Number(), candidate: side, stable: side },
        error: nullable(Type.String(), 'Error of the last failure.'),
        examples: Type.Array(Type.String(), { description: 'Ids of queries on the candidate.' }),
      }),
      { description: 'Statements that speak against the candidate.' },
    ),
  },
  { description: 'Verdict about a step.' },
);

export const RolloutDetails = Type.Object(
  {
    namespace: Type.String(),
    name: Type.String(),
    spec: Spec,
    ...declared,
    progress: nullable(
      Type.Object(
        {
          phase: oneOf(rolloutPhases, 'docs/rollouts.md lists them.'),
          step: Type.Integer({ minimum: 1, description: 'Position of the step, beginning at 1.' }),
          weight: Type.Integer({ minimum: 0, maximum: 100, description: 'Percent of the users on the candidate.' }),
          since: textField('Begin of the phase or step, RFC 3339.'),
          reason: textField('CamelCase word for programs.'),
          message: textField('The state, and the action to take.'),
          verdicts: Type.Array(StepVerdict, { description: 'The last verdict of each step.' }),
        },
        { description: 'Progress.' },
      ),
      'Null until it begins.',
    ),
  },
  { $id: 'RolloutState', description: 'A replacement of a cluster in steps.' },
);
export type RolloutDetails = ResponseBody<typeof RolloutDetails>;

const { gatewayClassName: _class, ...rolloutFields } = EngineRolloutSpec.properties;
const RolloutUpdate = Type.Object(
  { ...rolloutFields, ...Version },
  {
    $id: 'RolloutUpdate',
    additionalProperties: false,
    description: 'A rollout as a whole: what is absent has its default.',
  },
);
const ActionInPath = Type.Object({ ...LimitInPath.properties, action: oneOf(rolloutActions, 'What to do.') });
type RolloutInPath = Static<typeof LimitInPath>;

/** Rollouts of clusters, and actions on them (docs/rest-api.md#rollouts). */
export function rolloutRoutes(api: ApiContext, rollouts: RolloutRegistry): void {
  const unknown = ({ namespace, name }: RolloutInPath) => `there is no rollout ${namespace}/${name}`;
  const nameOf = ({ namespace, name }: RolloutInPath) => `${namespace}/${name}`;
  const find = ({ namespace, name }: RolloutInPath) => {
    const rollout = rollouts.find(namespace, name);
    return rollout === null ? null : rolloutDetails(rollout);
  };
  declaredRoutes<typeof LimitInPath, RolloutDetails, EngineRolloutSpec>(api, {
    ...{ tag: 'rollouts', path: '/api/rollouts', params: LimitInPath, kind: ENGINE_ROLLOUT },
    ...{ update: RolloutUpdate, State: RolloutDetails, Details: RolloutDetails },
    ...{ what: 'rollout', order: 'By namespace and name.', unknown, nameOf, keyOf: nameOf, find },
    texts: {
      list: ['All rollouts, with their verdicts'],
      one: ['A rollout, with its verdicts'],
      put: ['Declares a rollout; it begins if its clusters are ready'],
      delete: ['Deletes a rollout; one that has not ended is rolled back'],
    },
    list: () => rollouts.list().map(rolloutDetails),
    details: (state) => state,
    problems: (spec) => engineRollout.specProblems(spec),
    put: ({ namespace, name }, spec, context) => rollouts.put(namespace, name, spec, context),
    delete: ({ namespace, name }, version) => rollouts.delete(namespace, name, version),
  });
  routes(api, 'rollouts')('POST', '/api/rollouts/:namespace/:name/:action', {
    summary: 'Promotes the candidate, pauses, resumes or rolls back',
    params: ActionInPath,
    returns: ['The rollout.', reference(RolloutDetails)],
    errors: [403, 404, 409, 503],
    options: ofNamespace,
    handle: async ({ params, request }) => {
      const { namespace, name, action } = params;
      const before = find(params);
      if (before === null) throw notFound(unknown(params), 'name');
      await rollouts.act(namespace, name, action, writerOf(request, 'api'));
      const after = find(params) ?? before;
      const subject = { kind: ENGINE_ROLLOUT, name };
      const states = { before: before.progress, after: after.progress };
      request.changes.push({ object: `rollout ${nameOf(params)}`, subject, regarding: 'gateway', ...states });
      return after;
    },
  });
}

function rolloutDetails({ state, ...rollout }: InventoryRollout): RolloutDetails {
  if (state === null) return { ...rollout, progress: null };
  const { phase, step, weight, since, reason, message, verdicts } = state;
  const progress = { phase, step: step + 1, weight, since: new Date(since).toISOString(), reason, message, verdicts };
  return { ...rollout, progress } as RolloutDetails;
}
