import type { FastifyInstance } from 'fastify';
import { UiConfiguration } from '../answers/session.ts';
import { type EnvelopeRoutes, envelopeErrors, succeed, successAnswer } from './envelope.ts';

export interface ConfigurationRoutes extends EnvelopeRoutes {
  /** `uiConfiguration.disablePages`. */
  readonly disablePages: readonly string[];
}

/** Route of the web application's configuration (`uiConfiguration`). */
export async function configurationRoutes(app: FastifyInstance, options: ConfigurationRoutes): Promise<void> {
  envelopeErrors(app, options);
  app.get(
    '/webapp/getUIConfiguration',
    {
      schema: {
        tags: ['web application: configuration'],
        summary: 'Shows which pages are switched off',
        response: {
          200: successAnswer('The configuration.', UiConfiguration),
        },
      },
    },
    (_request, reply) => {
      const disablePages = options.disablePages;
      return succeed(reply, (disablePages.length === 0 ? {} : { disablePages }) satisfies UiConfiguration);
    },
  );
}
