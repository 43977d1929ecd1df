import { type Static, Type } from 'typebox';
import { durationField } from '../../model/durationField.ts';
import { routingGroupRules } from '../../model/registryCluster.ts';
import { GatewayClassName } from '../../model/resource.ts';
import { closedObject, optionalChoice, optionalInteger, suspendField } from '../fields/spec.ts';

export const ENGINE_ROLLOUT = 'EngineRollout';
export const ENGINE_ROLLOUTS = 'enginerollouts';

/** Defaults of the fields. */
export const rolloutDefaults = {
  ...{ duration: '10m', minQueries: 200, warmUp: '30s', progressDeadline: '24h', maxSlowdown: 2 },
} as const;

const clusterName = (description: string) => Type.String({ minLength: 1, maxLength: 253, description });
const optionalDuration = (name: string, least: string, most: string, description: string) =>
  Type.Optional(durationField(name, { least, most, example: '10m' }, description));

/** `spec.steps[]`. */
const Step = closedObject(
  {
    weight: Type.Integer({ minimum: 1, maximum: 99, description: 'Percent of the users that the candidate gets.' }),
    duration: optionalDuration(
      'duration',
      '1s',
      '720h',
      `Least time of the step; ${rolloutDefaults.duration} by default.`,
    ),
    minQueries: optionalInteger(1, 100_000, 'Queries that must have ended on each cluster before the next step.', {
      default: rolloutDefaults.minQueries,
    }),
  },
  'A step.',
);

/** `spec` of an EngineRollout (docs/rollouts.md). */
export const EngineRolloutSpec = closedObject(
  {
    routingGroup: Type.String({ ...routingGroupRules, description: 'Routing group of both clusters.' }),
    stable: clusterName('Name of the cluster that serves now.'),
    candidate: clusterName('Name of the cluster that replaces it; it has rolloutOnly: true.'),
    steps: Type.Array(Step, {
      ...{ minItems: 1, maxItems: 20 },
      description: 'Steps to the whole of the new queries. After the last one the candidate gets all of them.',
    }),
    warmUp: optionalDuration(
      ...([
        'warmUp',
        '0s',
        '24h',
        `Time for which the candidate must be healthy first; ${rolloutDefaults.warmUp} by default.`,
      ] as const),
    ),
    progressDeadline: optionalDuration(
      ...([
        'progressDeadline',
        '1s',
        '720h',
        `Time after which a step without enough queries pauses; ${rolloutDefaults.progressDeadline} by default.`,
      ] as const),
    ),
    analysis: Type.Optional(
      closedObject(
        {
          compare: optionalChoice(['CPU', 'Elapsed'], 'Time of queries that is compared.', { default: 'CPU' }),
          maxSlowdown: optionalInteger(
            ...([2, 100, 'A query is slow above this multiple of the median of its statement on stable.'] as const),
            { default: rolloutDefaults.maxSlowdown },
          ),
        },
        'Rules of the judge.',
      ),
    ),
    mode: optionalChoice(
      ['Act', 'Observe'],
      'Act: a verdict against the candidate has an effect. Observe: it is only shown.',
      { default: 'Act' },
    ),
    rollback: optionalChoice(
      ['Automatic', 'Manual'],
      'Effect of a verdict against the candidate: all queries go to stable, or the rollout pauses.',
      { default: 'Automatic' },
    ),
    attempt: optionalInteger(1, 1_000_000, 'Raise it to start a rollout again that was rolled back.', { default: 1 }),
    suspend: suspendField('While true, the rollout does not begin; one that has begun pauses.'),
    gatewayClassName: Type.Optional(GatewayClassName),
  },
  'Replaces a cluster of a routing group by another one in steps.',
  [
    'self.stable != self.candidate',
    'candidate must be another cluster than stable',
    ({ stable, candidate }) => (stable === candidate ? 'candidate' : null),
  ],
  [
    'self.steps.map(step, step.weight).isSorted()',
    'weight must not fall from step to step; put the steps in order',
    ({ steps }) => {
      const place = steps.findIndex(({ weight }, index) => weight < (steps[index - 1]?.weight ?? 0));
      return place < 0 ? null : `steps[${place}].weight`;
    },
  ],
  [
    'self.attempt != oldSelf.attempt || (self.routingGroup == oldSelf.routingGroup && self.stable == oldSelf.stable && self.candidate == oldSelf.candidate && self.steps == oldSelf.steps)',
    'routingGroup, stable, candidate and steps are immutable; raise attempt to start again with others',
  ],
);
export type EngineRolloutSpec = Static<typeof EngineRolloutSpec>;
