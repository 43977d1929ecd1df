import { LRUCache } from 'lru-cache';
import { Type } from 'typebox';
import { GatewayError } from '../model/errors.ts';
import { sizeClassNames, sizeClassOf } from '../model/sizeEstimates.ts';
import type { CalibrationCount } from '../store/sizeEstimates.ts';
import type { RuleParts, StoreContext } from './apiContext.ts';
import { routes } from './routes.ts';
import { integerField, objects, oneOf, optionalTextField, type ResponseBody } from './schemas.ts';

const DAY = 24 * 3_600_000;

const milliseconds = (description: string) => optionalTextField({ pattern: '^[0-9]{1,15}$', description });
const CalibrationQuery = Type.Object({
  since: milliseconds('Milliseconds since 1970, inclusive; a day before `until` when absent.'),
  until: milliseconds('Milliseconds since 1970, exclusive; now when absent.'),
  mediumFrom: milliseconds('Border of class M in milliseconds; that of the configuration when absent.'),
  largeFrom: milliseconds('Border of class L in milliseconds; that of the configuration when absent.'),
});

export const Calibration = Type.Object({
  since: integerField('Milliseconds since 1970.'),
  until: integerField('Milliseconds since 1970.'),
  measure: oneOf(['elapsed', 'cpu'], '`sizeClasses.measure`.'),
  mediumFrom: integerField('Milliseconds.'),
  largeFrom: integerField('Milliseconds.'),
  counts: objects('By predicted and actual class, in the order of both.', {
    predicted: oneOf([...sizeClassNames, 'unknown']),
    actual: oneOf(sizeClassNames),
    queries: integerField('Queries.'),
    cpuMillis: Type.Number({ description: 'Sum of processor time.' }),
  }),
});
export type Calibration = ResponseBody<typeof Calibration>;

/** Compares classes of expected size with what ran (docs/size-classes.md#choose-the-borders). */
export function estimateRoutes(api: StoreContext, { sizeClasses }: RuleParts): void {
  const { clock, store } = api;
  const { measure, refreshInterval } = sizeClasses;
  /** Counts that were read lately, for any borders: reading takes up to seconds. */
  const calibrations = new LRUCache<string, Promise<readonly CalibrationCount[]>>({ max: 8, ttl: 60_000 });
  routes(api, 'queries')('GET', '/api/estimates', {
    summary: 'Compares predicted with actual classes of queries',
    description:
      'Predictions for the newest 50,000 queries of a range are made from the runs of the five days before it. With other borders it shows what they would change.',
    query: CalibrationQuery,
    returns: ['How many queries were predicted as what they were.', Calibration],
    errors: [503],
    handle: async ({ query }): Promise<Calibration> => {
      const until = Number(query.until ?? Math.floor(clock.now() / refreshInterval) * refreshInterval);
      const since = Number(query.since ?? until - DAY);
      if (since >= until) throw new GatewayError('EG_MALFORMED', 'since must be before until.', { field: 'since' });
      const borders = {
        mediumFrom: Number(query.mediumFrom ?? sizeClasses.mediumFrom),
        largeFrom: Number(query.largeFrom ?? sizeClasses.largeFrom),
      };
      if (borders.largeFrom <= borders.mediumFrom) {
        const message = 'largeFrom must be longer than mediumFrom.';
        throw new GatewayError('EG_MALFORMED', message, { field: 'largeFrom' });
      }
      const key = `${since} ${until}`;
      const reading = calibrations.get(key) ?? store.sizeEstimates.calibrate({ from: since, to: until }, sizeClasses);
      calibrations.set(key, reading);
      const read = await reading.catch((error: unknown) => {
        calibrations.delete(key);
        throw error;
      });
      const classOf = (value: number) => sizeClassOf({ measure, ...borders }, value);
      const pairs = read.map(({ predicted, actual, ...figures }) => ({
        ...{ predicted: predicted === null ? 'unknown' : classOf(predicted), actual: classOf(actual), ...figures },
      }));
      const counts = ([...sizeClassNames, 'unknown'] as const).flatMap((predicted) =>
        sizeClassNames.map((actual) => {
          const alike = pairs.filter((pair) => pair.predicted === predicted && pair.actual === actual);
          const sum = (figure: 'queries' | 'cpuMillis') => alike.reduce((total, pair) => total + pair[figure], 0);
          return { predicted, actual, queries: sum('queries'), cpuMillis: sum('cpuMillis') };
        }),
      );
      return { since, until, measure, ...borders, counts };
    },
  });
}
