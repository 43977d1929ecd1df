import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';
import type { Clock } from '../../model/clock.ts';
import { ExactMatchSelector, parseExactMatchSelector } from '../../model/exactMatchSelector.ts';
import type { ExactMatchSelectorRepository } from '../../store/exactMatchSelectors.ts';
import { recordChange } from '../auth/audit.ts';
import { reference } from '../schemas.ts';
import { bodyOf, type EnvelopeRoutes, envelopeErrors, failureAnswers, succeed, successAnswer } from './envelope.ts';

export interface ExactSelectorRoutes extends EnvelopeRoutes {
  readonly exactMatchSelectors: ExactMatchSelectorRepository;
  readonly clock: Clock;
}

const tags = ['web application: resource groups'];

/** Exact-match source selectors, of the gateway's own database only (docs/rest-api.md#calls-of-the-web-application). */
export async function exactSelectorRoutes(app: FastifyInstance, options: ExactSelectorRoutes): Promise<void> {
  const { exactMatchSelectors, clock } = options;
  envelopeErrors(app, options);

  app.post(
    '/webapp/findExactMatchSourceSelector',
    {
      schema: {
        tags,
        summary: 'Lists exact-match source selectors',
        response: {
          200: successAnswer('All of them.', Type.Array(reference(ExactMatchSelector))),
          ...failureAnswers(503),
        },
      },
    },
    async (_request, reply) => succeed(reply, await exactMatchSelectors.all()),
  );

  app.post(
    '/webapp/saveExactMatchSourceSelector',
    {
      schema: {
        tags,
        summary: 'Creates an exact-match source selector',
        body: reference(ExactMatchSelector),
        response: {
          200: successAnswer('What is stored.', reference(ExactMatchSelector)),
          ...failureAnswers(400, 409, 413, 415, 422, 503),
        },
      },
    },
    async (request, reply) => {
      const selector = bodyOf(request, (value) => parseExactMatchSelector(value, clock.now()));
      await exactMatchSelectors.create(selector);
      const object = `exact-match selector of source ${selector.source}`;
      const subject = { kind: 'ExactMatchSelector', name: selector.source };
      recordChange(request, { object, subject, regarding: 'gateway', before: null, after: selector });
      return succeed(reply, selector);
    },
  );
}
